"""The program ``starter``, and the host that it keeps."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

_VARIABLE = 'PERENNIAL_STARTER'
_BAD_INPUT = 2  # starter's exit code
_PATIENCE = 60.0  # seconds that a host has to come back
_ANSWER = 60.0  # seconds that one answer may take
# What a host that dies does to a request, also in the middle of its answer.
_CUT_OFF = (ConnectionError, urllib.error.URLError, http.client.HTTPException, socket.timeout)


class StarterNotFound(FileNotFoundError):
    """The program ``starter`` is nowhere."""


class ProgramFailed(RuntimeError):
    """``starter`` could not do what it was asked; the text is its own."""


class BadInput(ProgramFailed, ValueError):
    """What was asked is wrong, and nothing was started. The text says where and what would be right."""


class Refused(RuntimeError):
    """The host refused. ``status`` is HTTP's."""

    def __init__(self, status: int, text: str):
        super().__init__(text)
        self.status = status


def find() -> str:
    """The path of ``starter``: what PERENNIAL_STARTER says, else one in PATH, else one beside this
    Python or this package."""
    named = os.environ.get(_VARIABLE)
    if named:
        if shutil.which(named):
            return named
        raise StarterNotFound(f'{_VARIABLE} names {named!r}, which is no program')
    beside = [Path(sys.executable).parent, Path(sys.prefix, 'bin'), Path(__file__).parents[2] / 'bin']
    for path in [None, *beside]:
        found = shutil.which('starter', path=path and str(path))
        if found:
            return found
    raise StarterNotFound('the program "starter" is not in PATH. Unpack a release of Perennial, or `make install` in its sources, '
                          f'or have {_VARIABLE} say where it is')


def run(*arguments: str, stdin: str = '', directory: str | None = None) -> str:
    """What ``starter`` prints for these arguments; its warnings go where this program's do."""
    done = subprocess.run([find(), *arguments], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          cwd=directory, encoding='utf-8', errors='replace')
    if done.returncode:
        raise (BadInput if done.returncode == _BAD_INPUT else ProgramFailed)(done.stderr.strip())
    sys.stderr.write(done.stderr)
    return done.stdout


def home() -> Path:
    """The state directory, as ``starter`` finds it."""
    state = os.environ.get('XDG_STATE_HOME') or Path.home() / '.local' / 'state'
    return Path(os.environ.get('PERENNIAL_HOME') or Path(state, 'perennial'))


def at_port(port: int) -> str:
    """The id of the experiment that the host serves there. Nobody is asked at the port itself: who
    listens there might be somebody else, who would learn the token."""
    for file in home().glob('experiments/*/nni-port.json'):
        told = json.loads(file.read_text())
        if told['port'] == port:
            return told['experiment']
    raise ValueError(f'no experiment of {home()} has port {port}; an id or a name finds every one')


# A proxy of the environment has no business between this program and its own machine.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Host:
    """The host of the state directory. It is started where there is none, and again where it has died."""

    def __init__(self) -> None:
        self._address = ''

    def address(self) -> str:
        """Where it listens."""
        if not self._address:
            self._address = '/'.join(run('dashboard', '--print').split('/')[:3])
        return self._address

    def ask(self, method: str, path: str, body: Any = None, key: str = '') -> Any:
        """Its answer to a request that may be sent twice, or whose key makes it the same request."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return send(self.address(), method, path, body, key)
            except _CUT_OFF:
                if time.monotonic() > deadline:
                    raise
                self._address = ''  # another one may be elsewhere
                time.sleep(0.2)


def send(address: str, method: str, path: str, body: Any = None, key: str = '') -> Any:
    """One request with the state directory's token, and its answer: JSON, or None where there is none."""
    headers = {'Authorization': 'Bearer ' + (home() / 'token').read_text().strip()}
    if key:
        headers['Idempotency-Key'] = key
    if body is not None:
        headers['Content-Type'] = 'application/json'
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data=data, headers=headers, method=method)
    try:
        with _opener.open(request, timeout=_ANSWER) as answer:
            text = answer.read()
    except urllib.error.HTTPError as error:
        raise Refused(error.code, _explained(error.read().decode('utf-8', 'replace'))) from None
    return json.loads(text) if text.strip() else None


def _explained(text: str) -> str:
    """What an error's answer says, as people read it."""
    try:
        told = json.loads(text)
    except ValueError:
        return text.strip()
    return told.get('error') or told.get('detail') or text
