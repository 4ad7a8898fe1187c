"""Three laboratories predict a diagnosis together, none shows its measurements.

Each measured other properties of the same 569 tumours: size, surface, shape. They fit one
logistic regression by sums of vectors along a path; run it with

    python examples/vertical_learning.py [FIGURE]
"""

import sys

import matplotlib
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dual2.learn import VerticalLogisticRegression

matplotlib.use("Agg")
import matplotlib.pyplot as plt

LABS = {"size": [0, 2, 3], "surface": [1, 4, 9], "shape": [5, 6, 7, 8]}
LABS = {name: [k + j for j in (0, 10, 20) for k in own] for name, own in LABS.items()}
"""Columns of each: a mean, an error and a worst value of every property."""


def main(figure: str) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    model = VerticalLogisticRegression(C=0.1, parties=LABS, network="path")
    together = make_pipeline(StandardScaler(), model).fit(X, y)
    central = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, tol=1e-10)).fit(X, y)
    losses = {"together": log_loss(y_test, together.predict_proba(X_test))}
    for name, own in LABS.items():
        alone = make_pipeline(StandardScaler(), LogisticRegression(C=0.1)).fit(X[:, own], y)
        losses[f"{name}\nalone"] = log_loss(y_test, alone.predict_proba(X_test[:, own]))

    worst = np.abs(model.coef_ - central[-1].coef_).max()
    print(model.result_.status, "accuracy on new patients", together.score(X_test, y_test))
    print(f"largest difference to the pooled model's coefficients: {worst:.1e}")
    print("communicated:", model.communication_)

    fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for (name, own), coef in zip(LABS.items(), model.party_coef_, strict=True):
        left.bar(own, coef[0], label=name)
    left.plot(central[-1].coef_[0], "k_", markersize=8, label="pooled data")
    left.set(xlabel="column", ylabel="coefficient (standardised columns)")
    fig.legend(*left.get_legend_handles_labels(), loc="outside upper left", ncols=4)
    right.bar(list(losses), list(losses.values()), color=["#444444", "C0", "C1", "C2"])
    right.set(ylabel="log loss on new patients")
    fig.savefig(figure, dpi=150)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "vertical_learning.png")
