# SPDX-License-Identifier: Apache-2.0
"""Two hosts on one machine: a client with an sshfs mount, and its storage.

Each host is a set of Linux namespaces (network, mounts, processes, host name),
joined by a pair of veth interfaces that are shaped to 1 Gbit/s or `mbit'; with `rtt_us' by
a cable with a length (delay.c), for kernels without netem. They share the file
system of the machine, so each hides from the other what a real host would
not have: the storage sees nothing at the client's mount point, the client sees
nothing of the export, and neither sees the other's processes.

  FOLDER/storage/export  the data, on the storage host
  FOLDER/client/mnt      where the client has it mounted
  FOLDER/client/work     files of the client only

With `more' there are two mounts besides, `near' of the same host and `far' of a
third one, on a cable of its own:

  FOLDER/storage/near  FOLDER/client/near
  FOLDER/far/export    FOLDER/client/far

Kinds: `sshfs' is all of that; `nfs' has the kernel's NFS in its place, where there is one
(tests/nfs/guest); `light' has no network: the export is a tmpfs,
bind-mounted at the client's path, for ferry's loopback transport.
With FYRIG_BUILDS=other the storage host has other builds of all annotated commands.
Needs root (or skips: `why_not'). Leaves nothing behind: a namespace ends with
its processes, and those are killed by their pids.
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from patience import patient  # noqa: E402

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
PORT = 22022
CLIENT_IP, STORAGE_IP = "10.91.7.1", "10.91.7.2"
STORAGE_NAME = "fy-storage"
FAR_CLIENT_IP, FAR_IP, FAR_NAME = "10.91.8.1", "10.91.8.2", "fy-far"
OWN_RTT_US = 40  # of the cable itself, measured
ALL = ["--mount", "--net", "--uts", "--ipc", "--pid"]
# The first process of a host: takes in orphans, and ends when it is killed.
# It ends with whoever holds the other end of its stdin, if that is a pipe.
HOLDER = ("import os, signal, stat\n"
          "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
          "print('ready', flush=True)\n"
          "os.close(1)\n"
          "if stat.S_ISFIFO(os.fstat(0).st_mode): os.read(0, 1)\n"
          "else:\n"
          "    while True: signal.pause()\n")
# Starts a proxy for each connection.
RELAY = ("import socket, subprocess, sys\n"
         "server = socket.create_server((sys.argv[1], int(sys.argv[2])))\n"
         "print('ready', flush=True)\n"
         "proxies = []\n"
         "while True:\n"
         "    with server.accept()[0] as link:\n"
         "        proxies = [p for p in proxies if p.poll() is None]\n"
         "        proxies.append(subprocess.Popen([sys.argv[3], 'proxy', '--stdio'],\n"
         "                                        stdin=link, stdout=link))\n")


class Trouble(Exception):
    """The rig cannot be built; the text says why."""


def why_not(kind="sshfs"):
    """None, or the reason for which this machine cannot have the rig."""
    if os.geteuid() != 0:
        return "needs root for namespaces"
    tools = ["unshare", "nsenter", "mount"]
    if kind == "nfs":
        tools += ["ip", "tc", "busybox", "rpcbind", "rpc.nfsd", "rpc.mountd", "exportfs", "mount.nfs"]
        with open("/proc/filesystems", encoding="ascii") as f:
            if "\tnfsd\n" not in f.read():
                return "the kernel has no NFS server"
    if kind == "sshfs":
        tools += ["ip", "tc", "sshfs", "ssh", "ssh-keygen", "/usr/sbin/sshd"]
        if not os.path.exists("/dev/fuse"):
            return "there is no /dev/fuse"
    for tool in tools:
        if not shutil.which(tool, path=os.environ.get("PATH", "") +
                            ":/usr/sbin:/sbin"):
            return tool + " is not installed"
    done = subprocess.run(["unshare", *ALL, "--fork", "mount", "-t", "tmpfs",
                           "fy", "/mnt"], capture_output=True, text=True)
    if done.returncode != 0:
        return "namespaces are not allowed: " + done.stderr.strip()
    return None


def built():
    """The build folder: FERRY_BUILDDIR, or where ferry is."""
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    for folder in (os.environ.get("FERRY_BUILDDIR"), ".",
                   os.path.join(top, "_build"),
                   os.path.join(top, "_build-check/plain"), top):
        if folder and os.path.isfile(os.path.join(folder, "ferry")):
            return folder
    return "."


def started(pid):
    """The start time of a process, which tells it from a later one."""
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii",
                  errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return None


class Rig:
    """`with Rig(...) as rig:' builds it and takes it down."""

    def __init__(self, kind="sshfs", build=None, shape=True, rtt_us=0,
                 options=(), folder=None, stays=False, more=False,
                 mbit=1000):
        self.more, self.mbit = more, mbit
        self.kind, self.shape, self.rtt_us = kind, shape, rtt_us
        self.options = list(options)
        self.build = os.path.abspath(build or built())
        self.folder, self.stays = folder, stays
        self.relays = 0
        self.hosts = {}      # name -> pid of its first process
        self.processes = []  # [pid, start time] of what is to be killed

    # ---- building ---------------------------------------------------------

    def __enter__(self):
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_):
        self.down()

    def up(self):
        reason = why_not(self.kind)
        if reason:
            raise Trouble(reason)
        if not self.folder:
            # Not in /tmp: a stage's is its own, so configurations that lie
            # there are not found, and commands that read them not placed.
            self.folder = tempfile.mkdtemp(
                prefix="fyrig.", dir=os.environ.get("FYRIG_DIR", "/srv"))
        os.chmod(self.folder, 0o755)
        self.folder = os.path.realpath(self.folder)
        for name in ("storage/export", "client/mnt", "client/work", "keys",
                     "run"):
            os.makedirs(os.path.join(self.folder, name), exist_ok=True)
        for export, mount in self.others():
            os.makedirs(export, exist_ok=True)
            os.makedirs(mount, exist_ok=True)
        self.host("client", ALL if self.kind != "light" else
                  ["--mount", "--pid"])
        if self.kind != "light":
            self.host("storage", ALL)
            self.hide("storage", "client")
            # Only the mount point's absence is wanted, not its parents'.
            self.hide("client", "storage")
            if self.more:
                self.host("far", ALL)
                for name, part in (("far", "client"), ("far", "storage"),
                                   ("storage", "far"), ("client", "far")):
                    self.hide(name, part)
            if os.environ.get("FYRIG_BUILDS") == "other":
                self.rebuild("storage")
            self.network()
            if self.kind == "nfs":
                self.nfs()
                self.relay()
            else:
                self.sshd()
                self.sshfs()
        else:
            self.must("client", "mount", "-t", "tmpfs", "-o", "mode=755",
                      "fyexport", self.export)
            self.must("client", "mount", "--bind", self.export, self.mnt)
            for export, mount in self.others():
                self.must("client", "mount", "-t", "tmpfs", "-o", "mode=755",
                          "fyexport", export)
                self.must("client", "mount", "--bind", export, mount)
        self.save()

    export = property(lambda self: os.path.join(self.folder, "storage/export"))
    mnt = property(lambda self: os.path.join(self.folder, "client/mnt"))
    work = property(lambda self: os.path.join(self.folder, "client/work"))

    def others(self):
        """(export, mount) of the further mounts: near, far."""
        if not self.more:
            return []
        return [(os.path.join(self.folder, export),
                 os.path.join(self.folder, mount))
                for export, mount in (("storage/near", "client/near"),
                                      ("far/export", "client/far"))]

    def data(self, export=None):
        """An export as this process (outside of all hosts) reaches it."""
        if self.kind != "light":
            return export or self.export
        return "/proc/%d/root%s" % (self.hosts["client"], export or self.export)

    def host(self, name, namespaces):
        """Starts the first process of a host in namespaces of its own."""
        process = subprocess.Popen(
            ["unshare", *namespaces, "--fork", "--mount-proc", "python3", "-c",
             HOLDER], start_new_session=True, stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL if self.stays else subprocess.PIPE,
            stderr=open(os.path.join(self.folder, "run/log"), "ab"))
        self.remember(process.pid)
        if process.stdout.readline() != b"ready\n":
            raise Trouble("no namespaces for the " + name)
        with open("/proc/%d/task/%d/children" % (process.pid, process.pid),
                  encoding="ascii") as f:
            self.hosts[name] = int(f.read().split()[0])
        self.remember(self.hosts[name])
        if "--uts" in namespaces:
            self.must(name, "hostname", "fy-" + name)

    def rebuild(self, host):
        """The host gets other builds of the annotated commands: with other build ids."""
        folder = os.path.join(self.folder, "run/other")
        os.makedirs(folder, exist_ok=True)
        for text in glob.glob(os.path.join(SOURCE, "annotations/lib/commands/*.ferry")):
            with open(text, encoding="utf-8") as file:
                rows = re.findall(r"^command ([^{\n]*)\{", file.read(), re.M)
            for name in {words.split()[0] for row in rows for words in row.split(",")}:
                path = os.path.realpath(shutil.which(name) or "/")
                with open(path, "rb") if os.path.isfile(path) else open(os.devnull, "rb") as file:
                    program = bytearray(file.read())
                at = program.find(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0")
                if at < 0 or program[:4] != b"\x7fELF":
                    continue
                program[at + 16] ^= 0xff
                copy = os.path.join(folder, name)
                with open(copy, "wb") as file:
                    file.write(program)
                os.chmod(copy, 0o755)
                self.must(host, "mount", "--bind", copy, path)

    def remember(self, pid):
        self.processes.append([pid, started(pid)])
        self.save()

    def hide(self, name, part):
        """One host has nothing of a folder of the other."""
        self.must(name, "mount", "-t", "tmpfs", "-o", "mode=755", "fyhidden",
                  os.path.join(self.folder, part))

    def network(self):
        storage = str(self.hosts["storage"])
        if self.rtt_us:
            self.cable()
        else:
            # A pid that is to be found: not from within the client.
            subprocess.run(["nsenter", "-t", str(self.hosts["client"]), "-n",
                            "ip", "link", "add", "fy0", "type", "veth", "peer",
                            "name", "fy1", "netns", storage], check=True)
        ends = [("client", "fy0", CLIENT_IP), ("storage", "fy1", STORAGE_IP)]
        if self.more:
            subprocess.run(["nsenter", "-t", str(self.hosts["client"]), "-n",
                            "ip", "link", "add", "fy2", "type", "veth", "peer",
                            "name", "fy3", "netns", str(self.hosts["far"])],
                           check=True)
            ends += [("client", "fy2", FAR_CLIENT_IP), ("far", "fy3", FAR_IP)]
        for host, device, address in ends:
            self.must(host, "ip", "link", "set", "lo", "up")
            self.must(host, "ip", "address", "add", address + "/24", "dev",
                      device)
            self.must(host, "ip", "link", "set", device, "up")
            if self.shape:
                self.must(host, "tc", "qdisc", "add", "dev", device, "root",
                          "tbf", "rate", "%dmbit" % self.mbit, "burst", "128kb", "limit",
                          "4mb")

    def cable(self):
        program = os.path.join(self.folder, "run/delay")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                              "delay.c")
        subprocess.run(["gcc", "-O2", "-o", program, source, "-lpthread"],
                       check=True)
        process = subprocess.Popen(
            [program, str(self.hosts["client"]), str(self.hosts["storage"]),
             str(max(0, self.rtt_us - OWN_RTT_US) // 2)], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, start_new_session=True)
        self.remember(process.pid)
        if process.stdout.readline() != b"ready\n":
            raise Trouble("no cable between the hosts")

    def sshd(self):
        keys = os.path.join(self.folder, "keys")
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "",
                            "-C", "fyrig", "-f", os.path.join(keys, name)],
                           check=True, stdin=subprocess.DEVNULL)
        with open(os.path.join(keys, "host.pub"), encoding="ascii") as f:
            key = " ".join(f.read().split()[:2])
        servers = [("storage", STORAGE_NAME, STORAGE_IP)]
        if self.more:
            servers.append(("far", FAR_NAME, FAR_IP))
        self.write("keys/known", "".join("[%s]:%d %s\n" % (ip, PORT, key)
                                         for _, _, ip in servers))
        shutil.copy(os.path.join(keys, "user.pub"),
                    os.path.join(keys, "authorized"))
        # Every user and program of the client finds them by their names.
        self.write("keys/rig.conf", "".join(
            "Host %s %s\n  HostName %s\n  Port %d\n  User root\n"
            "  IdentityFile %s/user\n  IdentitiesOnly yes\n"
            "  UserKnownHostsFile %s/known\n  BatchMode yes\n" %
            (name, ip, ip, PORT, keys, keys) for _, name, ip in servers))
        conf = "/etc/ssh/ssh_config.d"
        os.makedirs(conf, exist_ok=True)
        self.must("client", "mount", "-t", "tmpfs", "fyssh", conf)
        self.must("client", "cp", keys + "/rig.conf", conf + "/rig.conf")
        for host, name, ip in servers:
            self.serve(host, name, ip, keys)

    def serve(self, host, name, ip, keys):
        self.write("keys/sshd_config." + host, "".join(line + "\n" for line in (
            "ListenAddress %s:%d" % (ip, PORT),
            "HostKey %s/host" % keys, "PidFile %s/run/%s" % (self.folder, host),
            "AuthorizedKeysFile %s/authorized" % keys, "StrictModes no",
            "PasswordAuthentication no", "KbdInteractiveAuthentication no",
            "PermitRootLogin prohibit-password", "UsePAM no", "UseDNS no",
            "PrintMotd no", "PrintLastLog no", "MaxSessions 100",
            "MaxStartups 100", "AcceptEnv LANG LC_* TZ",
            # SHLVL: bash reads no start-up file, which may take seconds.
            "SetEnv PATH=%s:/usr/local/bin:/usr/bin:/bin SHLVL=2" % self.build,
            "Subsystem sftp internal-sftp")))
        self.must(host, "mount", "-t", "tmpfs", "-o", "mode=755", "fyrun",
                  "/run")
        self.must(host, "mkdir", "/run/sshd")
        self.must(host, "/usr/sbin/sshd", "-f", keys + "/sshd_config." + host,
                  "-E", self.folder + "/run/sshd.log")
        for _ in range(int(patient(600))):
            if self.call("client", ["ssh", name, "true"], timeout=patient(60),
                         capture_output=True).returncode == 0:
                return
            time.sleep(0.05)
        raise Trouble("sshd does not answer: " + self.read("run/sshd.log"))

    def sshfs(self):
        options = [part for o in self.options for part in ("-o", o)]
        self.must("client", "sshfs", *options,
                  STORAGE_NAME + ":" + self.export, self.mnt)
        for name, (export, mount) in zip((STORAGE_NAME, FAR_NAME),
                                         self.others()):
            self.must("client", "sshfs", *options, name + ":" + export, mount)

    def nfs(self):
        """The kernel's server, and its client: each has its own rpcbind by its /run."""
        for host in ("storage", "client"):
            self.must(host, "mount", "-t", "tmpfs", "-o", "mode=755", "fyrun", "/run")
            self.must(host, "mount", "-t", "tmpfs", "fynfs", "/var/lib/nfs")
            self.must(host, "mkdir", "-p", "/run/rpcbind", "/run/sendsigs.omit.d",
                      "/var/lib/nfs/sm", "/var/lib/nfs/sm.bak", "/var/lib/nfs/v4recovery")
            self.must(host, "touch", "/var/lib/nfs/etab", "/var/lib/nfs/rmtab")
            self.must(host, "rpcbind", "-w")
            self.must(host, "rpc.statd", "--no-notify")
        self.must("storage", "mount", "-t", "nfsd", "nfsd", "/proc/fs/nfsd")
        for name in ("nfsv4gracetime", "nfsv4leasetime"):  # no client was there before
            self.must("storage", "sh", "-c", "echo 10 >/proc/fs/nfsd/" + name)
        # Debian's file has the server look for users' groups by itself.
        self.must("storage", "sh", "-c", "[ -e /etc/nfs.conf ] || : >/etc/nfs.conf; "
                  "mount --bind /dev/null /etc/nfs.conf")
        self.must("storage", "sh", "-c", "[ -e /etc/exports ] || : >/etc/exports")
        self.export_nfs("rw,no_root_squash")
        self.must("storage", "rpc.nfsd", "4")
        self.must("storage", "rpc.mountd")
        self.mount_nfs(self.export, self.mnt)

    def relay(self, who=()):
        """In the place of ssh, of which a login takes half a minute in an emulated machine.
        `who': of its user; a later one takes the place of the one before."""
        self.relays += 1
        port = PORT + self.relays
        self.write("keys/relay", "#!/bin/sh\nexec busybox nc %s %d\n" % (STORAGE_IP, port))
        os.chmod(os.path.join(self.folder, "keys/relay"), 0o755)
        server = self.popen("storage", [*who, "python3", "-c", RELAY, STORAGE_IP, str(port),
                                        os.path.join(self.build, "ferry")],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        if server.stdout.readline() != b"ready\n":
            raise Trouble("no relay to the storage")

    def export_nfs(self, options, path=None):
        self.must("storage", "exportfs", "-o", options + ",sync,no_subtree_check",
                  CLIENT_IP + ":" + (path or self.export))

    def mount_nfs(self, path, mount, *options):
        self.must("client", "mount", "-t", "nfs", "-o",
                  ",".join(["actimeo=60", *self.options, *options]),
                  STORAGE_IP + ":" + path, mount)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as f:
            f.write(text)

    def read(self, name):
        try:
            with open(os.path.join(self.folder, name), encoding="ascii",
                      errors="replace") as f:
                return f.read()
        except OSError:
            return ""

    # ---- using ------------------------------------------------------------

    def enter(self, host, argv):
        """The command that runs `argv' on a host."""
        return ["nsenter", "-t", str(self.hosts[host]), "-m", "-p",
                *(["-n", "-u", "-i"] if self.kind != "light" else []), "--",
                *argv]

    def call(self, host, argv, **how):
        how.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(self.enter(host, argv), **how)

    def must(self, host, *argv):
        done = self.call(host, argv, capture_output=True, text=True,
                         timeout=patient(300))
        if done.returncode != 0:
            raise Trouble("%s: %s: %s" % (host, " ".join(argv),
                                          done.stderr.strip()))

    def popen(self, host, argv, **how):
        """Starts a command on a host; killed with the rig."""
        process = subprocess.Popen(self.enter(host, argv), **how)
        self.remember(process.pid)
        return process

    def mount_option(self):
        """What `ferry run' is given as --mount."""
        if self.kind != "light":
            return "%s=ssh://root@%s:%d%s?ferry=%s/ferry%s" % (
                self.mnt, STORAGE_IP, PORT, self.export, self.build,
                "&command=%s/keys/relay" % self.folder if self.kind == "nfs" else "")
        return "%s=loopback://%s" % (self.mnt, self.export)

    def mount_options(self, fault=""):
        """What `ferry run' is given for all mounts; `fault' is the far one's
        (see tests/badlink/fault.h)."""
        options = ["--mount", self.mount_option()]
        for (export, mount), ip in zip(self.others(), (STORAGE_IP, FAR_IP)):
            query = ""
            if fault and ip == FAR_IP:
                query = "&command=%s/tests/badlink/badlink%%20%s%%20ssh" % (
                    self.build, fault)
            if self.kind != "light":
                text = "%s=ssh://root@%s:%d%s?ferry=%s/ferry%s" % (
                    mount, ip, PORT, export, self.build, query)
            else:
                # A host is what its words say: here they are two.
                text = "%s=loopback://%s" % (mount, export)
                if query:
                    text = "%s=ssh://far%s?ferry=%s/ferry%s" % (
                        mount, export, self.build, query.replace("%20ssh", ""))
                elif ip == FAR_IP:
                    text += "?option=Far=yes"
            options += ["--mount", text]
        return options

    def bytes(self):
        """(to the client, from the client) so far, on the wire."""
        if self.kind == "light":
            return 0, 0
        with open("/proc/%d/net/dev" % self.hosts["client"],
                  encoding="ascii") as f:
            for line in f:
                name, _, rest = line.partition(":")
                if name.strip() == "fy0":
                    fields = rest.split()
                    return int(fields[0]), int(fields[8])
        raise Trouble("the client has no interface fy0")

    def rtt(self):
        """Median time until a closed port of the storage refuses, in seconds:
        one round trip, seen by a program."""
        done = self.call("client", ["python3", "-c", (
            "import socket, time\n"
            "times = []\n"
            "for _ in range(201):\n"
            "    s = socket.socket()\n"
            "    start = time.perf_counter()\n"
            "    s.connect_ex(('%s', 9))\n"
            "    times.append(time.perf_counter() - start)\n"
            "    s.close()\n"
            "print(sorted(times)[100])\n") % STORAGE_IP],
            capture_output=True, text=True)
        return float(done.stdout) if done.returncode == 0 else None

    def drop_caches(self):
        """The kernel's caches of files and names, on both hosts (there is one
        kernel): what follows is cold."""
        os.sync()
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as f:
            f.write("3\n")

    # ---- taking down ------------------------------------------------------

    def save(self):
        if self.folder and os.path.isdir(os.path.join(self.folder, "run")):
            self.write("run/rig.json", json.dumps(
                {"kind": self.kind, "build": self.build, "hosts": self.hosts,
                 "more": self.more,
                 "processes": self.processes}))

    @classmethod
    def load(cls, folder):
        rig = cls(folder=os.path.realpath(folder))
        saved = json.loads(rig.read("run/rig.json") or "{}")
        if not saved:
            raise Trouble("no rig is in " + folder)
        rig.kind, rig.build = saved["kind"], saved["build"]
        rig.hosts, rig.processes = saved["hosts"], saved["processes"]
        rig.more = saved.get("more", False)
        return rig

    def down(self):
        held = signal.pthread_sigmask(signal.SIG_BLOCK,
                                      {signal.SIGINT, signal.SIGTERM})
        try:
            if self.kind != "light" and "client" in self.hosts:
                for mount in [self.mnt, *(m for _, m in self.others())]:
                    try:
                        self.call("client", ["umount", "-l", mount],
                                  capture_output=True, timeout=patient(60))
                    except subprocess.TimeoutExpired:
                        pass  # it ends with the host
            # The last first: a first process of a host takes its host with it.
            for pid, start in reversed(self.processes):
                if start and started(pid) == start:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        continue
                    end = time.monotonic() + patient(30)
                    while started(pid) == start and time.monotonic() < end:
                        try:
                            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                                break
                        except ChildProcessError:
                            pass
                        time.sleep(0.002)
            self.hosts, self.processes = {}, []
            if self.folder:
                shutil.rmtree(self.folder, ignore_errors=True)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
