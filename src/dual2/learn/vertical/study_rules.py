"""What a learning study may not ask for, and why."""

from dual2.errors import Dual2Error
from dual2.learn.vertical.learning_terms import GIVEN, Learning
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
