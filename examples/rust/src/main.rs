//! A small axum application around the middleware: `PORT=8000 cargo run`

mod ratelimit;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::{from_fn, from_fn_with_state, Next};
use axum::response::Response;
use axum::{routing::any, Router};
use ratelimit::{rate_limit, By, Failure, RateLimit, Rule, User};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};

fn rules() -> HashMap<&'static str, Rule> {
    let items = Rule {
        limits: &[("items", "SLIDE 100 10s")],
        by: By::Ip,
        whitelist: &["127.0.0.7", "monitor"],
        failure: Failure::Open,
    };
    let login = Rule {
        limits: &[("minute", "SLIDE 5 1m"), ("day", "FIXED 50 1d")],
        by: By::User,
        whitelist: &[],
        failure: Failure::Closed,
    };
    let users = Rule {
        limits: &[("users", "SLIDE 3 1m")],
        by: By::Ip,
        whitelist: &[],
        failure: Failure::Open,
    };
    let export = Rule {
        limits: &[("export", "TOKEN 10 1 PER 1s")],
        by: By::Route,
        whitelist: &[],
        failure: Failure::Closed,
    };
    HashMap::from([
        ("/api/items", items),
        ("/api/login", login),
        ("/api/users/{id}", users),
        ("/api/export", export),
    ])
}

/// In place of a login: the name in X-User.
async fn header_login(mut request: Request, next: Next) -> Response {
    let user =
        request.headers().get("x-user").and_then(|user| user.to_str().ok()).map(str::to_owned);
    if let Some(user) = user {
        request.extensions_mut().insert(User(user));
    }
    next.run(request).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = |name, default: &str| std::env::var(name).unwrap_or(default.into());
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", port("REDIS_PORT", "6379")))?;
    let config = ConnectionManagerConfig::new()
        .set_response_timeout(Some(Duration::from_millis(500)))
        .set_connection_timeout(Some(Duration::from_millis(500)))
        .set_number_of_retries(1);
    let state = RateLimit {
        redis: ConnectionManager::new_lazy_with_config(client, config)?,
        rules: Arc::new(rules()),
    };
    let page = || any(|request: Request| async move { request.uri().path().to_owned() });
    let app = Router::new()
        .route("/api/items", page())
        .route("/api/login", page())
        .route("/api/users/{id}", page())
        .route("/api/export", page())
        .route("/api/free", page())
        .layer(from_fn_with_state(state, rate_limit))
        .layer(from_fn(header_login))
        .into_make_service_with_connect_info::<SocketAddr>();
    let listener =
        tokio::net::TcpListener::bind(format!("127.0.0.1:{}", port("PORT", "8000"))).await?;
    Ok(axum::serve(listener, app).await?)
}
