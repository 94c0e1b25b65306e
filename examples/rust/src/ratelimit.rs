//! A middleware for axum: answers 429 by a table of rules.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use redis::aio::ConnectionManager;
use redis::RedisResult;

pub enum By {
    Ip,
    /// The IP where nobody is logged in.
    User,
    /// One limit for everybody.
    Route,
}

/// What happens while the server cannot decide.
#[derive(Debug)]
pub enum Failure {
    Open,
    Closed,
}

pub struct Rule {
    /// Name and rule of the module; all must let the request pass.
    pub limits: &'static [(&'static str, &'static str)],
    pub by: By,
    /// IPs and users who are not limited.
    pub whitelist: &'static [&'static str],
    pub failure: Failure,
}

/// Who is logged in: an extension of the request, put there by the middleware that logs in.
#[derive(Clone)]
pub struct User(pub String);

#[derive(Clone)]
pub struct RateLimit {
    pub redis: ConnectionManager,
    /// By the pattern of the route, `/users/{id}`. A route that is not in the table is not limited.
    pub rules: Arc<HashMap<&'static str, Rule>>,
}

type Six = (bool, i64, i64, i64, i64, i64);

pub async fn rate_limit(State(state): State<RateLimit>, request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or("", MatchedPath::as_str);
    let Some(rule) = state.rules.get(route) else {
        return next.run(request).await;
    };
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let ip = peer.map_or("unknown".into(), |peer| peer.0.ip().to_string());
    let user = request.extensions().get::<User>().map(|user| user.0.as_str());
    if rule.whitelist.contains(&ip.as_str())
        || user.is_some_and(|user| rule.whitelist.contains(&user))
    {
        return next.run(request).await;
    }
    let who = match (&rule.by, user) {
        (By::Route, _) => "all".into(),
        (By::User, Some(user)) => format!("user:{user}"),
        _ => format!("ip:{ip}"),
    };
    let mut charge = redis::cmd("RL.CHARGE");
    // {id} would send all keys of the route to one node of a cluster.
    charge.arg(format!("http:{}:{who}", route.replace('{', "<").replace('}', ">")));
    for (_, words) in rule.limits {
        charge.arg(words.split(' ').collect::<Vec<_>>());
    }
    type Reply = (bool, i64, i64, i64, i64, i64, Vec<Six>);
    let reply: RedisResult<Reply> = charge.query_async(&mut state.redis.clone()).await;
    let (allowed, remaining, retry_ms, reset_ms, limit, _, rows) = match (reply, &rule.failure) {
        (Ok(reply), _) => reply,
        (Err(error), failure) => {
            eprintln!("rate limit of {route} not decided, failing {failure:?}: {error}");
            return match failure {
                Failure::Open => next.run(request).await,
                Failure::Closed => {
                    (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "1")]).into_response()
                }
            };
        }
    };
    let policies = rule.limits.iter().map(|(name, words)| format!("\"{name}\";{}", policy(words)));
    let items = rule.limits.iter().zip(&rows).map(|((name, _), row)| {
        let wait = seconds(if row.0 { row.3 } else { row.2 });
        format!("\"{name}\";r={};t={wait}", row.1)
    });
    let mut headers = HeaderMap::new();
    let mut set = |name, value: String| {
        // All values are ASCII digits and the names of the table.
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    set("x-ratelimit-limit", limit.to_string());
    set("x-ratelimit-remaining", remaining.to_string());
    set("x-ratelimit-reset", seconds(reset_ms).to_string());
    set("ratelimit-policy", policies.collect::<Vec<_>>().join(", "));
    set("ratelimit", items.collect::<Vec<_>>().join(", "));
    if retry_ms > 0 {
        // -1: no wait helps
        set("retry-after", seconds(retry_ms).to_string());
    }
    let mut response = match allowed {
        true => next.run(request).await,
        false => StatusCode::TOO_MANY_REQUESTS.into_response(),
    };
    response.headers_mut().extend(headers);
    response
}

fn seconds(ms: i64) -> i64 {
    (ms.max(0) + 999) / 1000
}

/// Quota and window: "SLIDE 100 10s" and "TOKEN 100 10 PER 1s" are both q=100;w=10.
fn policy(rule: &str) -> String {
    let words: Vec<&str> = rule.split(' ').collect();
    let bucket = matches!(words[0], "TOKEN" | "LEAKY");
    let length = if bucket { words.get(4).unwrap_or(&"1s") } else { words[2] };
    let (count, unit) = length.split_at(length.find(|c: char| !c.is_ascii_digit()).unwrap_or(0));
    let unit = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => 86400.0,
    };
    let number = |word: &str| word.parse::<f64>().unwrap_or(1.0);
    let refills = if bucket { number(words[1]) / number(words[2]) } else { 1.0 };
    format!("q={};w={}", words[1], (number(count) * unit * refills).ceil())
}
