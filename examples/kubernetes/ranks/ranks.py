"""A trial of several pods that needs nothing but Python: each says which one it is, and the
first reports. What a framework would be told is what this reads from its environment."""

import json
import os
import sys


def rank():
    """Which of the trial's pods this is, as the kinds tell it."""
    if "TF_CONFIG" in os.environ:
        return int(json.loads(os.environ["TF_CONFIG"])["task"]["index"])
    names = ("RANK", "PET_NODE_RANK", "PROCESS_ID", "OMPI_COMM_WORLD_RANK", "PADDLE_TRAINER_ID", "FC_TASK_INDEX", "JOB_COMPLETION_INDEX")
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdigit()), 0)


def main():
    if len(sys.argv) > 1:  # mpirun starts it where no parameters are
        parameters = json.loads(sys.argv[1])
    else:
        with open(os.environ["PERENNIAL_PARAMETERS"], encoding="utf-8") as file:
            parameters = json.load(file)
    print("rank", rank(), "with", parameters, flush=True)
    if rank() > 0:
        return
    for step in range(1, 6):
        print("perennial: intermediate", 1 - abs(parameters["rate"] - 0.01) / step, flush=True)
    print("perennial: final", 1 - abs(parameters["rate"] - 0.01), flush=True)


if __name__ == "__main__":
    main()
