"""The reference's grant vector: bytes, digest, signature, for the Ed25519 seed of 32 times 0x07."""

SEED = b"\x07" * 32
PUBLIC = "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c"
BYTES = (
    b'{"contract_version":1,"id":"g1","issuer":{"kind":"human","id":"owner"},"subject":{"kind":"agent","id":"a"},'
    b'"tenant_id":"t","application_id":"app","capabilities":["b:c","state:read"],'
    b'"resources":[{"kind":"RESOURCE_PREFIX","uri":"flow://app/x/*"}],"constraints":{"environments":[],'
    b'"worker_class":null,"network":null,"workload_id":null,"connection_enabled":null,"minimum_schema_version":null,'
    b'"subject_attributes":{},"resource_attributes":{},"context_attributes":{}},"issued_at":100,"expires_at":300,'
    b'"parent_grant":null,"revision":1,"status":"ACTIVE"}'
)
DIGEST = "23fa34a4724b346ac6adb924c1e0143de2d48e1cfb20fd35cde87b05ae9efad3"
SIGNATURE = (
    "039d1a50b0e13e3520d45ea5453ca2c6cf56eb1add6c6e6dcee280d6ba8a4712"
    "abf49830834c93392fdbd4b430dcedb85df5fe244713b1c3d0fc4f2d8ffdb30c"
)
