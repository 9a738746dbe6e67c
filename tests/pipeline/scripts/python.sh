# SPDX-License-Identifier: Apache-2.0
# sh=bash placed=8
# Python that drives commands over the mount.
cat >drive.py <<'P'
import glob, os, shutil, subprocess, sys, tempfile, concurrent.futures as cf
p1 = subprocess.Popen(["zcat", *sorted(glob.glob("logs/*.gz"))], stdout=subprocess.PIPE)
p2 = subprocess.Popen(["awk", "{print $9}"], stdin=p1.stdout, stdout=subprocess.PIPE)
p1.stdout.close()
p3 = subprocess.Popen("sort | uniq -c", shell=True, stdin=p2.stdout, stdout=subprocess.PIPE, text=True)
p2.stdout.close()
print(p3.communicate()[0], p1.wait(), p2.wait())
print(subprocess.run(["grep", "-c", "apple"], stdin=open("notes/a.txt"), capture_output=True))
print(subprocess.run(["sort", "-"], input=b"b\na\n", capture_output=True).stdout)
with cf.ThreadPoolExecutor(4) as pool:
    for r in pool.map(lambda f: subprocess.check_output(["md5sum", f]), sorted(glob.glob("notes/*.txt"))):
        print(r)
try:
    subprocess.run(["cat", "nosuch"], check=True, stderr=subprocess.DEVNULL)
except subprocess.CalledProcessError as e:
    print(e.returncode)
try:
    subprocess.run(["tail", "-f", "notes/a.txt"], timeout=0.5, stdout=subprocess.DEVNULL)
except subprocess.TimeoutExpired as e:
    print("timeout")
with tempfile.TemporaryDirectory(dir=".") as d:
    shutil.copytree("src", d + "/src")
    subprocess.run(["sed", "-i", "s/int/INT/", *glob.glob(d + "/src/*.c")], check=True)
    print(sum(open(f).read().count("INT") for f in glob.glob(d + "/src/*.c")))
    os.rename(d + "/src/main.c", "moved.c")
print(subprocess.getoutput("wc -l moved.c"), os.system("exit 3") >> 8)
f = open("appended", "w"); f.write("one\n"); f.flush()
subprocess.run(["echo", "two"], stdout=f); f.write("three\n"); f.close()
print(open("appended").read())
p = subprocess.Popen(["sort"], stdin=subprocess.PIPE, stdout=open("sorted", "w"), text=True)
for i in range(20, 0, -1): print(i, file=p.stdin)
p.stdin.close(); print(p.wait(), open("sorted").readline())
print(os.popen("head -1 notes/b.txt").read(), oct(os.stat("sorted").st_mode))
P
python3 drive.py
