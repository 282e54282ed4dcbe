"""Train a small network on scikit-learn's handwritten digits and report to NNI."""

import warnings

import nni
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

EPOCHS = 8


def main():
    parameters = {"hidden": 32, "lr": 0.01, "momentum": 0.9, "activation": "relu"}
    parameters.update(nni.get_next_parameter())

    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        images / 16.0, labels, test_size=0.3, random_state=0
    )
    model = MLPClassifier(
        hidden_layer_sizes=(int(parameters["hidden"]),),
        activation=parameters["activation"],
        solver="sgd",
        learning_rate_init=parameters["lr"],
        momentum=parameters["momentum"],
        random_state=0,
    )
    accuracy = 0.0
    for _ in range(EPOCHS):
        model.partial_fit(train_x, train_y, classes=range(10))
        accuracy = model.score(test_x, test_y)
        nni.report_intermediate_result(accuracy)
    nni.report_final_result(accuracy)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main()
