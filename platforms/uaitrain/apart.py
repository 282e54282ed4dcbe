# What a job of UAI-Train runs first whose code and output lie in a bucket. The service
# puts a Python interpreter in front of a job's command, and arguments of its own behind
# it: so this is a Python file, for Python 2.7 and 3. Beside it lie the runner and the
# code's archive; its arguments are the code's hash and the job, compressed, for the runner.
from __future__ import print_function

import base64
import os
import shutil
import subprocess
import sys
import tempfile
import zlib

OUTPUT = "/data/output"


def main():
    beside = os.path.dirname(os.path.abspath(sys.argv[0]))
    code_hash, job = sys.argv[1:3]
    work = tempfile.mkdtemp(prefix="perennial-")
    runner, told, code = (os.path.join(work, name) for name in ("perennial-runner", "job.json", "code"))
    shutil.copy(os.path.join(beside, "perennial-runner"), runner)
    os.chmod(runner, 0o755)
    with open(told, "wb") as file:
        file.write(zlib.decompress(base64.urlsafe_b64decode(job.encode("ascii"))))
    subprocess.check_call([runner, "unpack", code, code_hash, os.path.join(beside, "code.tar.gz")])
    os.chdir(code)
    sys.stdout.flush()
    os.execv(runner, [runner, "container", OUTPUT, told])


sys.exit(main())
