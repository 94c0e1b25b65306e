//! redis-rs, and its cluster client where RL_CLUSTER is given.

use redis::{cluster::ClusterClient, cmd, pipe, Commands, RedisError, RedisResult, Value};

type Charge = (bool, i64, i64, i64, i64, i64);
type Rows = Vec<Vec<i64>>;

fn main() -> RedisResult<()> {
    match std::env::var("RL_CLUSTER") {
        Ok(ports) => cluster(&ports),
        Err(_) => single(&std::env::var("RL_PORT").expect("RL_PORT")),
    }
}

fn single(port: &str) -> RedisResult<()> {
    let mut con = redis::Client::open(format!("redis://127.0.0.1:{port}"))?.get_connection()?;

    // A charge, and the check of it.
    let (allowed, remaining, retry_ms, reset_ms, limit, delay_ms): (bool, i64, i64, i64, i64, i64) =
        cmd("RL.FIXED").arg("user:1").arg(5).arg("60s").query(&mut con)?;
    if !allowed {
        println!("retry_ms {retry_ms}");
    }
    assert_eq!((allowed, remaining, retry_ms), (true, 4, 0));
    assert_eq!((reset_ms, limit, delay_ms), (60000, 5, 0));

    // A denial is a reply like any other.
    let reply: Charge =
        cmd("RL.FIXED").arg("user:1").arg(5).arg("60s").arg(&["COST", "5"]).query(&mut con)?;
    assert!(!reply.0 && reply.2 > 0 && reply.2 <= 60000, "{reply:?}");

    // Several rules: the six, and one row for each rule.
    let (allowed, _, _, _, _, _, rows): (bool, i64, i64, i64, i64, i64, Vec<Vec<i64>>) =
        cmd("RL.CHARGE")
            .arg("sms:138")
            .arg("SLIDE 1 60s SLIDE 5 1h".split(' ').collect::<Vec<_>>())
            .query(&mut con)?;
    assert!(allowed && rows[0][4] == 1 && rows[1][4] == 5, "{rows:?}");

    // Several keys.
    let (allowed, remaining, _, _, _, _, rows): (bool, i64, i64, i64, i64, i64, Rows) =
        cmd("RL.MCHARGE")
            .arg(2)
            .arg(&["{u1}:ip", "{u1}:user"])
            .arg("SLIDE 9 60s SLIDE 5 60s".split(' ').collect::<Vec<_>>())
            .query(&mut con)?;
    assert!(allowed && remaining == 4 && rows.len() == 2, "{rows:?}");

    // An error reply is an Err; its code is that of the server.
    let error = cmd("RL.TOKEN").arg("user:1").arg(0).arg(1).query::<Charge>(&mut con).unwrap_err();
    assert!(error.to_string().contains("capacity"), "{error}");
    let error =
        cmd("RL.SLIDE").arg("user:1").arg(5).arg("1m").query::<Charge>(&mut con).unwrap_err();
    assert_eq!(error.code(), Some("WRONGTYPE"));

    // A pipeline. An error anywhere makes the whole an Err, after all have run.
    let charge =
        |key: &str, cost: i64| cmd("RL.TOKEN").arg(key).arg(2).arg(1).arg("COST").arg(cost).clone();
    let replies: Vec<Charge> = pipe()
        .add_command(charge("job", 1))
        .add_command(charge("job", 1))
        .add_command(charge("job", 1))
        .query(&mut con)?;
    assert_eq!(replies.iter().map(|r| r.0).collect::<Vec<_>>(), [true, true, false]);
    let lost: Result<Vec<Charge>, RedisError> = pipe()
        .add_command(charge("lost", 1))
        .add_command(charge("lost", 0))
        .add_command(charge("lost", 1))
        .query(&mut con);
    assert!(lost.is_err());
    // ignore_errors gives each its own Result.
    let each: Vec<RedisResult<Value>> = pipe()
        .add_command(charge("each", 1))
        .add_command(charge("each", 0))
        .ignore_errors()
        .query(&mut con)?;
    assert!(each[0].is_ok() && each[1].is_err());
    assert!(con.exists::<_, bool>("lost")?);

    println!("error: Err(RedisError), code() is the server's; a pipeline is one Err, or with ignore_errors() a Result each");
    Ok(())
}

fn cluster(ports: &str) -> RedisResult<()> {
    let nodes = ports.split(',').map(|port| format!("redis://127.0.0.1:{port}"));
    let mut con = ClusterClient::new(nodes.collect::<Vec<_>>())?.get_connection()?;
    let two = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();

    for i in 0..30 {
        let reply: Charge =
            cmd("RL.FIXED").arg(format!("user:{i}")).arg(5).arg("60s").query(&mut con)?;
        assert!(reply.0 && reply.1 == 4, "{reply:?}");
        let (allowed, _, _, _, _, _, rows): (bool, i64, i64, i64, i64, i64, Rows) =
            cmd("RL.CHARGE")
                .arg(format!("sms:{i}"))
                .arg(two("SLIDE 1 60s SLIDE 5 1h"))
                .query(&mut con)?;
        assert!(allowed && rows.len() == 2, "{rows:?}");
        let (allowed, _, _, _, _, _, rows): (bool, i64, i64, i64, i64, i64, Rows) =
            cmd("RL.MCHARGE")
                .arg(2)
                .arg(&[format!("{{u{i}}}:ip"), format!("{{u{i}}}:user")])
                .arg(two("SLIDE 9 60s SLIDE 5 60s"))
                .query(&mut con)?;
        assert!(allowed && rows.len() == 2, "{rows:?}");
    }

    let reply: Charge =
        cmd("RL.FIXED").arg("user:1").arg(5).arg("60s").arg(&["COST", "5"]).query(&mut con)?;
    assert!(!reply.0 && reply.2 > 0, "{reply:?}");

    let error = cmd("RL.TOKEN").arg("user:1").arg(0).arg(1).query::<Charge>(&mut con).unwrap_err();
    assert!(error.to_string().contains("capacity"), "{error}");
    let error = cmd("RL.MCHARGE")
        .arg(2)
        .arg(&["a", "b"])
        .arg(two("SLIDE 9 60s SLIDE 5 60s"))
        .query::<Value>(&mut con);
    println!("note: RL.MCHARGE {}", error.unwrap_err());

    // A pipeline over all nodes.
    let mut pipe = redis::cluster::cluster_pipe();
    for i in 0..30 {
        pipe.cmd("RL.FIXED").arg(format!("job:{i}")).arg(5).arg("60s");
    }
    let replies: Vec<Charge> = pipe.query(&mut con)?;
    assert!(replies.len() == 30 && replies.iter().all(|reply| reply.1 == 4), "{replies:?}");
    Ok(())
}
