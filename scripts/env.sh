# Sourced by the other scripts: where cargo and the built module are, and which packages there are beside the module.
[ ! -d "${HOME:-/nowhere}/.cargo/bin" ] || PATH=$HOME/.cargo/bin:$PATH
export PATH
target=${CARGO_TARGET_DIR:-target}
module=${RL_MODULE:-$target/release/libredis_rl.so}
server=${RL_SERVER:-redis-server}
packages="tests/bench tests/clients/rust tests/fuzz examples/rust"
