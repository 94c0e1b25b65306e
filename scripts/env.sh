# Sourced by the other scripts: where cargo and the built module are.
[ ! -d "${HOME:-/nowhere}/.cargo/bin" ] || PATH=$HOME/.cargo/bin:$PATH
export PATH
target=${CARGO_TARGET_DIR:-target}
module=${RL_MODULE:-$target/release/libredis_rl.so}
server=${RL_SERVER:-redis-server}
