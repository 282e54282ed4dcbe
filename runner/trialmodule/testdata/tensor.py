"""An object that is no number but has one, as a scalar of torch."""


class Tensor:
    def __init__(self, value):
        self.value = value

    def item(self):
        return self.value
