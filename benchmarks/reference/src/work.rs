//! The reference's durable work and state triggers, for `benchmarks/work.py` and `benchmarks/triggers.py`.
//!
//! Every transaction of the database is forced, as ours are; the file of the triggers' cursors is not, as it is there.

use feltdb::authorization::{Grant, GrantConstraints, GrantSigner, GrantStatus, ResourceScope, ResourceScopeKind};
use feltdb::authorization::{SignedGrant, Subject};
use feltdb::state_trigger::{StateTrigger, StateTriggerChangeKind, StateTriggerPredicate, StateTriggerStore};
use feltdb::workload::{CreateWorkload, WorkloadStore};
use feltdb::{AtomicMutation, FeltDb};
use serde_json::{json, Value};
use std::path::Path;
use std::time::Instant;

const NOW: i64 = 1_700_000_000;

fn grant(subject: &Subject) -> SignedGrant {
    let signer = GrantSigner::new("k", vec![7; 32]).expect("signer");
    signer
        .sign(Grant {
            contract_version: 1,
            id: "grant".into(),
            issuer: Subject::Human("owner".into()),
            subject: subject.clone(),
            tenant_id: "t".into(),
            application_id: "app".into(),
            capabilities: ["workload:execute".into()].into(),
            resources: vec![ResourceScope { kind: ResourceScopeKind::Workload, uri: "flow://app/workloads/*".into() }],
            constraints: GrantConstraints::default(),
            issued_at: 1,
            expires_at: 9_999_999_999,
            parent_grant: None,
            revision: 1,
            status: GrantStatus::Active,
        })
        .expect("grant")
}

/// Create, claim by id, start and complete so many workloads, one by one; lifecycles per second.
pub fn lifecycles(db: &FeltDb, first: u64, count: u64) -> Value {
    let subject = Subject::Service("bench".into());
    let signed = grant(&subject);
    let mut work = WorkloadStore::from_db(db.clone()).expect("workloads");
    let capabilities = ["identity".to_string()].into();
    let began = Instant::now();
    for number in first..first + count {
        let made = work
            .create(CreateWorkload {
                tenant_id: "t".into(),
                application_id: "app".into(),
                environment: "production".into(),
                definition_id: "identity".into(),
                definition_revision: "1".into(),
                trigger: "manual".into(),
                input: json!({"key": number}),
                requested_by: subject.clone(),
                session_id: None,
                authorization_snapshot: signed.clone(),
                capability_snapshot: ["identity".into()].into(),
                connection_scopes: Default::default(),
                priority: 0,
                idempotency_key: format!("k{number}"),
                retry_policy: Default::default(),
                timeouts: Default::default(),
                dependencies: vec![],
                not_before: None,
                created_at: NOW,
                approval: None,
            })
            .expect("create");
        let id = made.workload_id;
        let claim = work.claim(&id, "w", &capabilities, NOW, 30_000).expect("claim");
        work.start(&id, &claim.claim_id, "w", claim.fencing_token, NOW).expect("start");
        let result = format!("result-{id}");
        work.complete(&id, &claim.claim_id, "w", claim.fencing_token, &result, json!({"done": true}), vec![], 1, NOW)
            .expect("complete");
    }
    json!({"rate": count as f64 / began.elapsed().as_secs_f64()})
}

/// Evaluate so many triggers over so many new changes, one in ten of which matches one of them; changes per second.
pub fn evaluate(db: &FeltDb, folder: &Path, triggers: u64, changes: u64) -> Value {
    let subject = Subject::Agent("bench".into());
    let signed = grant(&subject);
    let name = Instant::now().elapsed().as_nanos() as u64 + db.operations_since(&Default::default()).expect("all").len() as u64;
    let mut store = StateTriggerStore::load(folder.join(format!("triggers-{name}.json"))).expect("triggers");
    for number in 0..triggers {
        store
            .define(StateTrigger {
                trigger_id: format!("t{number}-{name}"),
                source_collection: "orders".into(),
                change_kind: StateTriggerChangeKind::Insert,
                predicate: Some(StateTriggerPredicate { field: "kind".into(), equals: json!(format!("k{number}")) }),
                target_capability: "identity".into(),
                tenant_id: "t".into(),
                application_id: "app".into(),
                environment: "production".into(),
                definition_revision: "r1".into(),
                requested_by: subject.clone(),
                authorization_snapshot: signed.clone(),
                capability_snapshot: ["identity".into()].into(),
                connection_scopes: Default::default(),
                priority: 0,
                retry_policy: Default::default(),
                timeouts: Default::default(),
                not_before: None,
                enabled: true,
            })
            .expect("define");
    }
    let mut work = WorkloadStore::from_db(db.clone()).expect("workloads");
    // What is there already is passed over: a trigger of the reference has no start but the cursors of the file.
    for operation in db.operations_since(&Default::default()).expect("operations") {
        let seen = store.cursors.entry(operation.instance_id.clone()).or_insert(0);
        *seen = (*seen).max(operation.sequence);
    }
    for batch in (0..changes).collect::<Vec<_>>().chunks(100) {
        let mutations: Vec<_> = batch
            .iter()
            .map(|n| AtomicMutation {
                capability: "orders".into(),
                key: format!("orders:{name}-{n}"),
                value: Some(json!({"kind": if n % 10 == 0 { format!("k{}", n / 10 % triggers) } else { "-".into() }, "n": n})),
            })
            .collect();
        db.apply_atomic_transaction(&format!("load-{name}-{}", batch[0]), None, &[], &mutations, None).expect("load");
    }
    let began = Instant::now();
    let made = store.evaluate(db, &mut work, NOW).expect("evaluate").len();
    assert_eq!(made as u64, changes.div_ceil(10));
    json!({"rate": changes as f64 / began.elapsed().as_secs_f64()})
}
