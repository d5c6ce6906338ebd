"""All rows, by subject; each subject is walked in order on a namespace of its own."""

from tests.reference import rows_envelope, rows_questions, rows_records, rows_transactions
from tests.reference.exchanges import Exchange

SUBJECTS: dict[str, list[Exchange]] = {
    "envelope": rows_envelope.ROWS,
    "records": rows_records.ROWS,
    "transactions": rows_transactions.ROWS,
    "questions": rows_questions.ROWS,
}
