# SPDX-License-Identifier: Apache-2.0
# sh=bash slow placed=7
# A virtual environment, a package, its tests, on the mount.
python3 -m venv --without-pip ve; . ve/bin/activate; python -c 'import sys; print(sys.prefix.endswith("/ve"))'
mkdir pkg; echo 'def f(x): return 2 * x' >pkg/__init__.py; cat >test_pkg.py <<'P'
import os, subprocess, unittest, pkg
class T(unittest.TestCase):
    def test_f(self): self.assertEqual(pkg.f(2), 4)
    def test_wc(self): self.assertEqual(subprocess.check_output("wc -l <notes/a.txt", shell=True), b"100\n")
    def test_files(self):
        open("tf", "w").write("b\na\n")
        subprocess.check_call(["sort", "-o", "tf", "tf"])
        self.assertEqual(open("tf").read(), "a\nb\n")
        os.remove("tf"); self.assertFalse(os.path.exists("tf"))
P
python -m unittest -q 2>&1 | grep -v 'Ran\|^-*$'; python -m compileall -q pkg; ls pkg/__pycache__ | wc -l
echo 'def f(x): return 3 * x  # longer' >pkg/__init__.py; python -c 'import pkg; print(pkg.f(2))'; sed -i 's/3/4/; s/longer/even longer/' pkg/__init__.py; python -c 'import pkg; print(pkg.f(2))'
find . -name __pycache__ -prune -exec rm -r {} +; find . -name '*.pyc' -not -path './ve/*' | wc -l; deactivate; rm -rf ve; ls; python3 -c 'import zipfile; z = zipfile.ZipFile("z.zip", "w"); z.writestr("a", "b"); z.close()'; unzip -p z.zip a; rm z.zip
