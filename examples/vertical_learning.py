"""
Three laboratories predict a diagnosis together
===============================================

Each measured other properties of the same 569 tumours: size, surface, shape. They fit one logistic regression, and none shows its
measurements. Needs the extras learn and plot.
"""

# %%
# Columns of each: a mean, an error and a worst value of every property.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dual2.learn import VerticalLogisticRegression

labs = {"size": [0, 2, 3], "surface": [1, 4, 9], "shape": [5, 6, 7, 8]}
labs = {name: [k + j for j in (0, 10, 20) for k in own] for name, own in labs.items()}

X, y = load_breast_cancer(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)
model = VerticalLogisticRegression(C=0.1, parties=labs, network="path")
together = make_pipeline(StandardScaler(), model).fit(X, y)
print(model.result_.status, "accuracy on new patients", together.score(X_test, y_test))
print("communicated:", model.communication_)

# %%
# The coefficients are those of the pooled table; alone, each laboratory predicts worse.

central = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, tol=1e-10)).fit(X, y)
worst = np.abs(model.coef_ - central[-1].coef_).max()
print(f"largest difference to the pooled model's coefficients: {worst:.1e}")
losses = {"together": log_loss(y_test, together.predict_proba(X_test))}
for name, own in labs.items():
    alone = make_pipeline(StandardScaler(), LogisticRegression(C=0.1)).fit(X[:, own], y)
    losses[f"{name}\nalone"] = log_loss(y_test, alone.predict_proba(X_test[:, own]))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for (name, own), coef in zip(labs.items(), model.party_coef_, strict=True):
    left.bar(own, coef[0], label=name)
left.plot(central[-1].coef_[0], "k_", markersize=8, label="pooled data")
left.set(xlabel="column", ylabel="coefficient (standardised columns)")
figure.legend(*left.get_legend_handles_labels(), loc="outside upper left", ncols=4)
right.bar(list(losses), list(losses.values()), color=["#444444", "C0", "C1", "C2"])
_ = right.set(ylabel="log loss on new patients")
