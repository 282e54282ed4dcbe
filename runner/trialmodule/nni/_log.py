"""What a trial outside any experiment says on standard output, as nni says it."""

_silent = False


def info(text, *values):
    _logger().info(text, *values)


def silence_stdout():
    """Stop the lines that a trial outside any experiment prints for its results."""
    global _silent
    _silent = True


def enable_global_logging(enable=True):
    """Do nothing: a trial's logs are its own, and nni's, which this would add them to, are not here."""


def _logger():
    import logging
    logger = logging.getLogger('nni')
    for handler in [one for one in logger.handlers if one.get_name() == 'nni']:
        logger.removeHandler(handler)
    if not _silent:
        logger.setLevel(logging.INFO)
        logger.addHandler(_handler())
    return logger


def _handler():
    import logging
    import sys
    handler = logging.StreamHandler(sys.stdout)
    handler.set_name('nni')
    handler.setFormatter(logging.Formatter('[%(asctime)s] \x1b[32m%(message)s\x1b[0m', '%Y-%m-%d %H:%M:%S'))
    return handler
