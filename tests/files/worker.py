# SPDX-License-Identifier: Apache-2.0
"""A program of the model test (model.py): does one call after the other in its folder, as
lines of JSON on stdin tell it, and answers with what came of it. The model's own tree has
the same worker, so that one text says what each call is."""
import errno
import fcntl
import json
import mmap
import os
import stat
import sys


class Worker:
    """Keeps open files by number."""

    def __init__(self, root):
        self.root, self.open = root, {}

    def at(self, path):
        return os.path.join(self.root, path)

    def do(self, call, *args):
        """["ok", value] or ["error", NAME]."""
        try:
            return ["ok", getattr(self, "do_" + call)(*args)]
        except OSError as error:
            return ["error", errno.errorcode.get(error.errno, str(error.errno))]

    # ---- names
    def do_mkdir(self, path):
        os.mkdir(self.at(path), 0o755)

    def do_rmdir(self, path):
        os.rmdir(self.at(path))

    def do_unlink(self, path):
        os.unlink(self.at(path))

    def do_rename(self, path, other):
        os.rename(self.at(path), self.at(other))

    def do_link(self, path, other):
        os.link(self.at(path), self.at(other))

    def do_symlink(self, target, path):
        os.symlink(target, self.at(path))

    def do_readlink(self, path):
        return os.readlink(self.at(path))

    def do_list(self, path):
        return sorted(os.listdir(self.at(path)))

    def do_chmod(self, path, mode):
        os.chmod(self.at(path), mode)

    def do_utime(self, path, ns):
        os.utime(self.at(path), ns=(ns, ns))

    def do_stat(self, path):
        return self.told(os.lstat(self.at(path)))

    def told(self, st):
        size = 0 if stat.S_ISDIR(st.st_mode) else st.st_size
        links = 0 if stat.S_ISDIR(st.st_mode) else st.st_nlink
        return [st.st_mode, size, links]

    # ---- whole files
    def do_put(self, path, text):
        with open(self.at(path), "wb") as f:
            f.write(text.encode())

    def do_make(self, path, text):
        with open(self.at(path), "xb") as f:
            f.write(text.encode())

    def do_replace(self, path, text):
        """As editors do."""
        with open(self.at(path + "~"), "wb") as f:
            f.write(text.encode())
            f.flush()
            os.fsync(f.fileno())
        os.rename(self.at(path + "~"), self.at(path))

    def do_append(self, path, text):
        with open(self.at(path), "ab") as f:
            f.write(text.encode())

    def do_get(self, path):
        with open(self.at(path), "rb") as f:
            return f.read().decode("latin-1")

    def do_truncate(self, path, size):
        os.truncate(self.at(path), size)

    def do_patch(self, path, at, text):
        fd = os.open(self.at(path), os.O_WRONLY)
        try:
            os.pwrite(fd, text.encode(), at)
        finally:
            os.close(fd)

    def do_map(self, path, at, text):
        fd = os.open(self.at(path), os.O_RDWR)
        try:
            size = os.fstat(fd).st_size
            if at + len(text) > size:
                return None
            try:
                m = mmap.mmap(fd, size)
            except ValueError:  # another has cut it
                return None
            with m:
                m[at:at + len(text)] = text.encode()
                m.flush()
            os.fsync(fd)
        finally:
            os.close(fd)
        return None

    def do_setx(self, path, name, text):
        os.setxattr(self.at(path), "user." + name, text.encode())

    def do_getx(self, path, name):
        return os.getxattr(self.at(path), "user." + name).decode()

    def do_copy(self, path, other):
        with open(self.at(path), "rb") as a, open(self.at(other), "wb") as b:
            left = os.fstat(a.fileno()).st_size
            while left > 0:
                n = os.copy_file_range(a.fileno(), b.fileno(), left)
                if n == 0:
                    break
                left -= n

    def do_tree(self, path):
        """All below: [path, type and mode, size, links, contents or target]."""
        found = []
        for name in sorted(os.listdir(self.at(path))):
            below = os.path.join(path, name)
            st = os.lstat(self.at(below))
            entry = [below, *self.told(st)]
            if stat.S_ISREG(st.st_mode):
                entry.append(self.do_get(below))
            elif stat.S_ISLNK(st.st_mode):
                entry.append(self.do_readlink(below))
            found.append(entry)
            if stat.S_ISDIR(st.st_mode):
                found += self.do_tree(below)
        return found

    # ---- open files
    def do_open(self, number, path):
        self.open[number] = os.open(self.at(path), os.O_RDWR)

    def do_close(self, number):
        os.close(self.open.pop(number))

    def do_write(self, number, at, text):
        return os.pwrite(self.open[number], text.encode(), at)

    def do_read(self, number, at, n):
        return os.pread(self.open[number], n, at).decode("latin-1")

    def do_sync(self, number):
        os.fsync(self.open[number])

    def do_size(self, number):
        return os.fstat(self.open[number]).st_size

    def do_cut(self, number, size):
        os.ftruncate(self.open[number], size)

    def do_lock(self, number, exclusive):
        fcntl.flock(self.open[number], (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) |
                    fcntl.LOCK_NB)

    def do_unlock(self, number):
        fcntl.flock(self.open[number], fcntl.LOCK_UN)


def main():
    worker = Worker(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(worker.do(*json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
