//! The Rust reference engine as one more contestant: the same lines as `benchmarks/child.py`.
//!
//! Optional. Build it with `cargo build --release --ignore-rust-version` in this folder; `make bench` then takes it
//! along. Everything a shape needs is made before its clock starts, as in `shapes.py`.

mod work;

use feltdb::{AtomicMutation, DurabilityMode, FeltDb, JsonCasResult};
use serde_json::{json, Value};
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::Instant;

const STATUSES: [&str; 5] = ["new", "open", "paid", "sent", "done"];

fn record_key(number: u64) -> String {
    format!("items:{number:08}")
}

fn mix(number: u64, generation: u64) -> u64 {
    let mut mixed = ((number + 1) * 2654435761 + generation * 40503) & 0xFFFF_FFFF;
    mixed ^= mixed >> 15;
    mixed = (mixed * 0x2C1B_3C6D) & 0xFFFF_FFFF;
    mixed ^ (mixed >> 12)
}

fn value(number: u64, generation: u64) -> Value {
    let mixed = mix(number, generation);
    let mut state = mixed + 1;
    let body: String = (0..200)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            b"abcdefghijklmnopqrstuvwxyz0123456789 "[(state >> 33) as usize % 37] as char
        })
        .collect();
    json!({
        "id": number,
        "status": STATUSES[(mixed % 5) as usize],
        "owner": format!("owner-{:03}", (mixed >> 8) % 1000),
        "amount": (mixed >> 3) % 1_000_000,
        "body": body,
    })
}

struct Session {
    db: FeltDb,
    folder: PathBuf,
    records: u64,
    fresh: u64,
    turn: u64,
    transactions: u64,
}

impl Session {
    fn picks(&mut self, count: usize) -> Vec<u64> {
        self.turn += 1;
        let turn = self.turn;
        (0..count as u64).map(|n| mix(n, turn) % self.records).collect()
    }

    fn new_items(&mut self, count: usize) -> Vec<(String, Value)> {
        let first = self.fresh;
        self.fresh += count as u64;
        (first..self.fresh).map(|n| (record_key(n), value(n, 0))).collect()
    }

    fn changed_items(&mut self, count: usize) -> Vec<(String, Value)> {
        let turn = self.turn + 1;
        self.picks(count).into_iter().map(|n| (record_key(n), value(n, turn))).collect()
    }

    fn transaction(&mut self, items: Vec<(String, Value)>) {
        self.transactions += 1;
        let id = format!("bench-{}-{}", std::process::id(), self.transactions);
        let mutations: Vec<_> = items
            .into_iter()
            .map(|(key, value)| AtomicMutation { capability: "items".into(), key, value: Some(value) })
            .collect();
        self.db.apply_atomic_transaction(&id, None, &[], &mutations, None).expect("commit");
    }

    fn answer(&mut self, asked: &Value) -> Value {
        let seconds = asked["seconds"].as_f64().unwrap_or(0.0);
        let many = |rate: f64| (rate * seconds) as usize;
        match asked["do"].as_str().unwrap_or("") {
            "load" => {
                let (first, last) = (asked["first"].as_u64().unwrap(), asked["last"].as_u64().unwrap());
                let items: Vec<_> = (first..last).map(|n| (record_key(n), value(n, 0))).collect();
                let batches: Vec<_> = items.chunks(100).map(|batch| batch.to_vec()).collect();
                timed(batches, 600.0, 100, |batch| self.transaction(batch))
            }
            "single" => {
                let items = self.new_items(many(12_000.0));
                timed(items, seconds, 1, |(key, value)| self.db.insert(&key, value).expect("insert"))
            }
            "tens" => {
                let items = self.new_items(many(60_000.0));
                let batches: Vec<_> = items.chunks(10).map(|batch| batch.to_vec()).collect();
                timed(batches, seconds, 1, |batch| self.transaction(batch))
            }
            "update" => {
                let items = self.changed_items(many(12_000.0));
                timed(items, seconds, 1, |(key, value)| self.db.update(&key, value).expect("update"))
            }
            "swap" => {
                let items = self.changed_items(many(12_000.0));
                timed(items, seconds, 1, |(key, value)| {
                    let known: Value = self.db.get(&key).expect("get").expect("present");
                    let version = known["__version"].as_u64().unwrap_or(1);
                    let done = self.db.compare_and_set_json(&key, version, None, None, false, value).expect("swap");
                    assert!(matches!(done, JsonCasResult::Updated { .. }));
                })
            }
            "get" => {
                let keys: Vec<_> = self.picks(many(600_000.0)).into_iter().map(record_key).collect();
                timed(keys, seconds, 1, |key| {
                    let found: Option<Value> = self.db.get(&key).expect("get");
                    assert!(found.is_some());
                })
            }
            "query" => {
                let pairs: Vec<_> = self.picks(many(30_000.0));
                timed(pairs, seconds, 1, |n| {
                    let (status, owner) = (json!(STATUSES[(n % 5) as usize]), json!(format!("owner-{:03}", n % 1000)));
                    self.db
                        .query_collection_by_equality("items", &[("status", &status), ("owner", &owner)], |row| {
                            row.value["status"] == status && row.value["owner"] == owner
                        })
                        .expect("query")
                        .expect("an index");
                })
            }
            "pages" => {
                let (began, mut after, mut count) = (Instant::now(), None::<String>, 0);
                while began.elapsed().as_secs_f64() < seconds {
                    let page = self.db.list_collection_page("items", after.as_deref(), 100).expect("page");
                    count += page.len();
                    after = page.last().map(|row| row.key.clone());
                }
                json!({"rate": count as f64 / began.elapsed().as_secs_f64()})
            }
            "feed" => {
                // One call gives all there are; it takes no limit.
                let (began, mut count) = (Instant::now(), 0);
                while began.elapsed().as_secs_f64() < seconds {
                    count += self.db.operations_since(&HashMap::new()).expect("operations").len();
                }
                json!({"rate": count as f64 / began.elapsed().as_secs_f64()})
            }
            "lifecycles" => work::lifecycles(&self.db, asked["first"].as_u64().unwrap(), asked["count"].as_u64().unwrap()),
            "evaluate" => {
                let (triggers, changes) = (asked["triggers"].as_u64().unwrap(), asked["changes"].as_u64().unwrap());
                work::evaluate(&self.db, &self.folder, triggers, changes)
            }
            "memory" => json!({"mb": own_memory_mb()}),
            "ready" => json!({}),
            _ => json!({}),
        }
    }
}

fn timed<T>(arguments: Vec<T>, seconds: f64, units: usize, mut act: impl FnMut(T)) -> Value {
    let mut waits = Vec::with_capacity(arguments.len());
    let began = Instant::now();
    let mut last = began;
    for argument in arguments {
        act(argument);
        let now = Instant::now();
        waits.push((now - last).as_secs_f64() * 1000.0);
        last = now;
        if (now - began).as_secs_f64() > seconds {
            break;
        }
    }
    let total = (last - began).as_secs_f64();
    waits.sort_by(f64::total_cmp);
    json!({
        "rate": (waits.len() * units) as f64 / total,
        "p50_ms": waits[waits.len() / 2],
        "p99_ms": waits[waits.len() * 99 / 100],
        "max_ms": waits[waits.len() - 1],
    })
}

fn own_memory_mb() -> f64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("Anonymous:")).unwrap_or("0 0");
    line.split_whitespace().nth(1).and_then(|size| size.parse::<f64>().ok()).unwrap_or(0.0) / 1000.0
}

fn say(figures: &Value) {
    println!("{figures}");
    std::io::stdout().flush().expect("stdout");
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (folder, indexed) = (PathBuf::from(&arguments[1]), arguments[2] == "1");
    let records: u64 = arguments[4].parse().expect("records");
    say(&json!({}));
    let mut session: Option<Session> = None;
    for line in std::io::stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line.expect("line")).expect("JSON");
        if session.is_none() {
            let began = Instant::now();
            std::fs::create_dir_all(&folder).expect("folder");
            let db = FeltDb::open(folder.join("items.db")).expect("open");
            db.set_durability_mode(DurabilityMode::Synced);
            if asked["do"] == "open" {
                let _: Option<Value> = db.get(&record_key(1)).expect("get");
                say(&json!({"ms": began.elapsed().as_secs_f64() * 1000.0}));
            }
            if indexed {
                db.create_equality_index("items", "status").expect("index");
                db.create_equality_index("items", "owner").expect("index");
            }
            session = Some(Session { db, folder: folder.clone(), records, fresh: records, turn: 0, transactions: 0 });
            if asked["do"] == "open" {
                continue;
            }
        }
        say(&session.as_mut().expect("open").answer(&asked));
    }
}
