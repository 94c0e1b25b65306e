# Sourced: start_server PORT starts a server with the module on PORT or the next free one, in a folder of its
# own and without persistence. Sets port, pid and dir; the server and the folder go when the script ends.
port_is_free() { ! (: </dev/tcp/127.0.0.1/"$1") 2>/dev/null; }

stop_server() {
  [ -z "${pid:-}" ] || { kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; } || true
  [ -z "${dir:-}" ] || rm -rf "$dir"
  pid='' dir=''
}

start_server() {
  dir=$(mktemp -d)
  trap stop_server EXIT
  trap 'exit 130' INT TERM
  local so try; so=$(realpath "$module")
  for ((port = $1, try = 0; try < 50; port++, try++)); do
    port_is_free "$port" || continue
    "$server" --port "$port" --bind 127.0.0.1 --dir "$dir" --save '' --appendonly no --logfile "$dir/log" \
      --loadmodule "$so" </dev/null >/dev/null &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
      # The process id tells our server from another that took the port in the meantime.
      if redis-cli -p "$port" INFO server 2>/dev/null | grep -q "^process_id:$pid"; then return; fi
      sleep 0.05
    done
    grep -q 'in use' "$dir/log" || break
  done
  echo "the server did not start:" >&2
  tail -20 "$dir/log" >&2
  return 1
}
