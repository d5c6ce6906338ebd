"""Work that a claim calls for. The workers of the journey find this module because its folder is an installed app."""

from typing import Any

from apps.workloads.capabilities import Context, Mutation, capability


@capability("settle_claim")
def settle_claim(work: dict[str, Any], context: Context) -> dict[str, Any]:
    """Write what a claim is due as a record of `payouts` under its id. Raises KeyError for one without a sum."""
    claim = work["source"]["key"].partition(":")[2]
    euros = work["record"]["euros"]
    payout = {"claim": claim, "euros": euros}
    context.commit("payout", [Mutation(kind="put", collection="payouts", id=claim, value=payout)])
    return payout
