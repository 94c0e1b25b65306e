//! A cluster of real servers, put together by the cluster commands themselves.

use std::fs;

use redis::Value;

use super::client::{show, Client};
use super::server::{Builder, Server};
use super::wait::until;

/// Three primaries that share the slots, each with so many replicas. The clocks run: a cluster needs time.
pub struct Cluster {
    pub primaries: Vec<Server>,
    pub replicas: Vec<Server>,
}

impl Cluster {
    #[track_caller]
    pub fn start(replicas_each: usize) -> Cluster {
        Cluster::of(replicas_each, Server::build)
    }

    #[track_caller]
    pub fn start_without_module(replicas_each: usize) -> Cluster {
        Cluster::of(replicas_each, || Server::build().without_module())
    }

    #[track_caller]
    fn of(replicas_each: usize, build: fn() -> Builder) -> Cluster {
        let node = || build().running_clock(0).cluster().start();
        let primaries: Vec<Server> = (0..3).map(|_| node()).collect();
        let replicas: Vec<Server> = (0..3 * replicas_each).map(|_| node()).collect();
        let slots = [(0, 5460), (5461, 10922), (10923, 16383)];
        for (number, (server, (from, to))) in primaries.iter().zip(slots).enumerate() {
            let mut client = server.client();
            client.ok(&format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1));
            client.ok(&format!("CLUSTER ADDSLOTSRANGE {from} {to}"));
        }
        let cluster = Cluster { primaries, replicas };
        let first = cluster.primaries[0].port;
        for node in cluster.nodes().skip(1) {
            node.client().ok(&format!("CLUSTER MEET 127.0.0.1 {first}"));
        }
        let known = cluster.nodes().count() as i64;
        cluster.wait_all("all nodes known", |c| c.info_cluster("cluster_known_nodes") == known);
        for (number, replica) in cluster.replicas.iter().enumerate() {
            let id = cluster.primaries[number % 3].client().text("CLUSTER MYID");
            let mut client = replica.client();
            until("CLUSTER REPLICATE", || {
                client.call(&format!("CLUSTER REPLICATE {id}")) == Value::Okay
            });
        }
        cluster
            .wait_all("cluster state ok", |c| c.text("CLUSTER INFO").contains("cluster_state:ok"));
        for (number, replica) in cluster.replicas.iter().enumerate() {
            cluster.primaries[number % 3].wait_for(replica);
        }
        // Each node must have heard which ones are replicas, or it would not listen to them.
        let replicas = cluster.replicas.len();
        cluster.wait_all("all roles known", |c| {
            let nodes = c.text("CLUSTER NODES");
            nodes.lines().filter(|line| line.contains("slave ")).count() == replicas
        });
        cluster
    }

    pub fn nodes(&self) -> impl Iterator<Item = &Server> {
        self.primaries.iter().chain(&self.replicas)
    }

    fn wait_all(&self, what: &str, mut done: impl FnMut(&mut Client) -> bool) {
        for node in self.nodes() {
            let mut client = node.client();
            until(what, || done(&mut client));
        }
    }

    /// The node that serves `key`, found as a client finds it: by following MOVED.
    pub fn owner(&self, key: &str) -> &Server {
        let asked = self.primaries.iter().find(|node| node.pid() != 0).expect("a live node");
        let reply = asked.client().run(&["EXISTS", key]);
        let text = show(&reply);
        let address = text.strip_prefix("MOVED ").and_then(|rest| rest.split(' ').nth(1));
        let Some(address) = address else { return asked };
        let port = address.rsplit(':').next().and_then(|p| p.parse::<u16>().ok());
        let port = port.expect("port in MOVED");
        self.nodes().find(|s| s.port == port).expect("a known node")
    }

    /// The replica of the primary of this number.
    pub fn replica(&self, primary: usize) -> &Server {
        &self.replicas[primary]
    }

    /// Waits until a node's file tells of each replica and its primary as one shard. A node that is killed
    /// before that may refuse its file, as corrupted, when it starts again (Valkey 8.0).
    #[track_caller]
    pub fn wait_for_file(node: &Server) {
        let mut client = node.client();
        until("shards in the node's file", || {
            client.ok("CLUSTER SAVECONFIG");
            let text = fs::read_to_string(node.dir.join("nodes.conf")).expect("the node's file");
            let nodes: Vec<Vec<&str>> = text.lines().map(|l| l.split(' ').collect()).collect();
            let shard = |node: &[&str]| {
                node[1].split("shard-id=").nth(1).map(|id| id.split(',').next().map(str::to_owned))
            };
            nodes.iter().filter(|node| node.len() > 3 && node[2].contains("slave")).all(|replica| {
                let primary = nodes.iter().find(|node| node[0] == replica[3]);
                primary.is_some_and(|primary| shard(primary) == shard(replica))
            })
        });
    }

    /// A client that knows slots and redirections by itself.
    pub fn client(&self) -> redis::cluster::ClusterConnection {
        let nodes = self.primaries.iter().map(|node| format!("redis://127.0.0.1:{}", node.port));
        redis::cluster::ClusterClientBuilder::new(nodes)
            .retries(100)
            .min_retry_wait(2)
            .max_retry_wait(50)
            .build()
            .expect("nodes")
            .get_connection()
            .expect("a cluster connection")
    }
}

impl Client {
    fn info_cluster(&mut self, field: &str) -> i64 {
        let all = self.text("CLUSTER INFO");
        let prefix = format!("{field}:");
        all.lines()
            .find_map(|l| l.strip_prefix(&prefix))
            .and_then(|v| v.trim().parse().ok())
            .unwrap_or(0)
    }
}
