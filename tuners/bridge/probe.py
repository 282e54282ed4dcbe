"""Finds out whether this Python can run an algorithm of NNI's or of its user's, and if not,
what would be right. Nothing is constructed. PERENNIAL_PROBE is {kind, name, className,
codeDirectory, classArgs}; the answer is a JSON object on file descriptor 5, empty where all
is well."""
import importlib
import importlib.util
import inspect
import json
import os
import sys

PIP = {"sklearn": "scikit-learn", "yaml": "PyYAML", "cv2": "opencv-python", "PIL": "Pillow", "skimage": "scikit-image"}
SMAC = ("nni[SMAC] no longer builds with today's compilers: use GP or TPE, which need no Python, "
        "or an environment of old with Python 3.8, swig and smac4nni")


class Wrong(Exception):
    def __init__(self, message, advice="", arguments=False, unknown=False):
        super().__init__(message)
        self.answer = {"message": message, "advice": advice, "arguments": arguments, "unknown": unknown}


def main():
    algorithm = json.loads(os.environ.pop("PERENNIAL_PROBE"))
    answer = {}
    try:
        nni()
        made = of_class(algorithm) if algorithm.get("className") else of_name(algorithm)
        kin(made, algorithm)
        arguments(made, algorithm)
    except Wrong as wrong:
        answer = wrong.answer
    with os.fdopen(5, "w") as out:
        out.write(json.dumps(answer))


def nni():
    try:
        importlib.import_module("nni")
    except ImportError as error:
        if error.name == "nni":
            raise Wrong("runs in NNI's own dispatcher, and %s has no nni" % sys.executable,
                        "%s -m pip install nni" % sys.executable, unknown=True) from error
        raise Wrong("runs in NNI's own dispatcher, and nni cannot be imported: %s" % error, pip(error)) from error


def other_release(name):
    """Where this release of nni has a module that another one had elsewhere: 2.0 moved them."""
    rest = name[len("nni."):]
    old = not rest.startswith(("runtime.", "algorithms.", "tools."))
    places = ["nni.runtime." + rest, "nni.algorithms.hpo." + rest, "nni.tools." + rest] if old else ["nni." + rest.split(".")[-1]]
    here = next((place for place in places if there(place)), None)
    return "%s is of nni %s, and this is nni %s%s" % (
        name, "1.x" if old else "2.x or 3.0", sys.modules["nni"].__version__, ", which has it as " + here if here else "")


def there(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def pip(error):
    if (getattr(error, "name", None) or "").startswith("nni."):
        return other_release(error.name)
    name = (getattr(error, "name", None) or "").split(".")[0]
    return "%s -m pip install %s" % (sys.executable, PIP.get(name, name)) if name else ""


def imported(module, whose, advice=None):
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module + ".").startswith(error.name + "."):
            raise Wrong("there is no module %s %s" % (error.name, whose), "is it spelled as its file is?") from error
        raise Wrong("module %s needs %s, which %s lacks" % (module, error.name, sys.executable), advice or pip(error)) from error
    except SyntaxError as error:
        raise Wrong("%s:%s: %s" % (error.filename, error.lineno, error.msg)) from error
    except Exception as error:
        raise Wrong("importing %s fails: %s: %s" % (module, type(error).__name__, error), advice or "") from error


def of_class(algorithm):
    sys.path.append(algorithm["codeDirectory"])
    module, name = algorithm["className"].rsplit(".", 1)
    found = imported(module, "in " + algorithm["codeDirectory"])
    if not hasattr(found, name):
        own = sorted(n for n, c in vars(found).items() if inspect.isclass(c) and c.__module__ == module)
        raise Wrong("module %s has no class %s" % (module, name), "it has " + ", ".join(own) if own else "it has none")
    return getattr(found, name)


def of_name(algorithm):
    module, name = registered(algorithm["name"], algorithm["kind"])
    if module is None:  # what 2.8 renamed
        module, name = registered(algorithm["name"] + "Tuner", algorithm["kind"])
    if module is None:
        raise Wrong("%s knows no %s %s" % ("nni " + sys.modules["nni"].__version__, algorithm["kind"], algorithm["name"]),
                    "nnictl algo register makes one known", unknown=True)
    advice = SMAC if algorithm["name"].lower() == "smac" else None
    return getattr(imported(module, "that nni was told of", advice), name)


def registered(name, kind):
    """The module and the class that a release of NNI means by a name, None where it means none."""
    try:
        from nni.tools.package_utils import config_manager
        meta = config_manager.get_algo_meta(name)
        kinds = ("tuner", "advisor") if kind == "tuner" else (kind,)
        if meta is None or meta.algo_type not in kinds or not meta.class_name:
            return None, None
        return meta.class_name.rsplit(".", 1)
    except ImportError:  # before 2.6
        tools = importlib.import_module("nni.tools.package_utils" if importlib.util.find_spec("nni.tools") else "nni.package_utils")
    for group in [kind + "s"] + ["advisors"] * (kind == "tuner"):
        try:
            module, found = tools.get_builtin_module_class_name(group, name)
        except Exception:
            continue
        if module:
            return module, found
    return None, None


def kin(made, algorithm):
    base = importlib.import_module("nni.runtime.msg_dispatcher_base" if importlib.util.find_spec("nni.runtime") else "nni.msg_dispatcher_base")
    wanted = importlib.import_module("nni." + algorithm["kind"]), algorithm["kind"].capitalize()
    kinds = (getattr(*wanted),) + ((base.MsgDispatcherBase,) if algorithm["kind"] == "tuner" else ())
    if not (inspect.isclass(made) and issubclass(made, kinds)):
        raise Wrong("%s is no %s: it must inherit nni.%s.%s" % (made.__name__, algorithm["kind"], algorithm["kind"], wanted[1]))


def arguments(made, algorithm):
    given = algorithm.get("classArgs") or {}
    try:
        inspect.signature(made.__init__).bind(None, **given)
    except TypeError as error:
        takes = [p.name for p in list(inspect.signature(made.__init__).parameters.values())[1:]]
        raise Wrong("%s: %s" % (made.__name__, error), "it takes " + (", ".join(takes) or "none"), arguments=True) from error


main()
