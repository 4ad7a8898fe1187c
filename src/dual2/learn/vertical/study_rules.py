"""What a learning study may not ask for, and why."""

from dual2.errors import Dual2Error
from dual2.learn.vertical.learning_terms import GIVEN, ORDINAL, Learning
from dual2.parties.study import Study


def check_one_norm(found: Learning, where: str, matrices: bool) -> None:
    """Refuse an l1 penalty whose sums show columns, unless all parties allow that."""
    if found.automatic and not found.mixes and not matrices:
        raise Dual2Error(
            f"{where}: {found.model} has an l1 penalty here. Whenever a column enters the model "
            "or leaves it, two sums differ by that column alone, and every party can compute it. "
            "Use a penalty of squares (Ridge, LogisticRegression with l1_ratio = 0), or allow it "
            "for all parties with sums.matrices = true."
        )


def check_private(study: Study, found: Learning, where: str) -> None:
    """Refuse what would show labels that are to stay at their holder."""
    if not found.private:
        return
    holder = study.names[found.holder]
    if found.epsilon is not None or found.accepted:
        raise Dual2Error(
            f"{where}: labels.private is true beside epsilon or accept_leakage; expected one of "
            "the three. private alone is the recommended choice."
        )
    if not found.mixes:
        raise Dual2Error(
            f"{where}: labels.private needs a penalty of squares and no learn.method. An l1 "
            "penalty or another method needs many sums, which show the labels. Choose Ridge, "
            "LogisticRegression with l1_ratio = 0 or the like, or accept_leakage = true."
        )
    if found.receivers != (found.holder,):
        raise Dual2Error(
            f"{where}: predictions.to names others than {holder}. Whoever has the scores of "
            f"training rows and its own coefficients can solve for the labels. Name {holder} "
            "alone, or decide on accept_leakage = true."
        )
    if not study.masked and len(study.members) > 2:
        raise Dual2Error(
            f"{where}: labels.private needs masked sums with more than two parties. Remove "
            "sums.masked = false."
        )


def check_links(study: Study, found: Learning, where: str) -> None:
    """Rows are matched between the label's holder and each other party, without a third one."""
    holder, rows = found.holder, found.rows
    far = set(range(len(study.members))) - {holder} - set(study.neighbours(holder))
    if rows.policy != GIVEN and far:
        names = ", ".join(study.names[i] for i in sorted(far))
        raise Dual2Error(
            f"{where}: rows are matched over links to {study.names[holder]}, the holder of the "
            f'labels; {names} has none. Use network = "star", or add links.'
        )


def check_ordinal(found: Learning, where: str) -> None:
    """Refuse predictions of an ordinal model elsewhere: only the holder has its thresholds."""
    if found.model == ORDINAL and found.receivers != (found.holder,):
        raise Dual2Error(
            f"{where}: predictions.to: only the holder of the labels can predict with {ORDINAL}, "
            "since it alone has the thresholds. Name the holder."
        )


def check_class_weight(found: Learning, where: str) -> None:
    """Refuse weights of classes that are neither balanced nor positive numbers by name."""
    weight = found.options.get("class_weight")
    if weight in (None, "balanced"):
        return
    numbers = list(weight.values()) if isinstance(weight, dict) else [None]
    if not all(isinstance(v, int | float) and not isinstance(v, bool) and v > 0 for v in numbers):
        raise Dual2Error(
            f'{where}: learn.options.class_weight: expected "balanced", or a positive number for '
            "each class: { yes = 2.0, no = 1.0 }."
        )
    if not found.mixes:
        raise Dual2Error(
            f"{where}: learn.options.class_weight by name needs a penalty of squares and no "
            'learn.method: only the holder knows which class is meant. Use "balanced".'
        )


def check_evaluation(found: Learning, where: str) -> None:
    """Refuse figures that the model does not have, or that only the holder could compute."""
    if not found.mixes:
        raise Dual2Error(
            f"{where}: evaluation needs a penalty of squares and no learn.method, so that the "
            "holder of the labels trains alone. Remove it."
        )
    if not found.evaluation.standard_errors:
        return
    estimator = found.estimator()
    if estimator._penalty().ridge or found.search is not None:
        raise Dual2Error(
            f"{where}: evaluation.standard_errors: a penalty biases the coefficients, so that "
            "standard errors say little. Set alpha = 0, or C = inf, without a search."
        )
    if not estimator._has_standard_errors():
        raise Dual2Error(
            f"{where}: evaluation.standard_errors: the loss of {found.model} is no likelihood."
        )
