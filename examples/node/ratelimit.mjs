// Express middleware: answers 429 by a table of rules. For ioredis and iovalkey.
//
//   const limit = rateLimit(redis, rules, (req) => req.user?.id);
//   app.post('/login', limit('/login'), login);
//
// Every route names its rule: to Express /LOGIN and /login/ are /login, so the path of a request is no key.
// user: who is logged in, a string or a number; undefined, null or '' if nobody is. Without it: req.user.
// rules: name -> {
//   limits: name -> rule of the module; all must let the request pass,
//   by: 'ip', 'user' (the IP where nobody is logged in) or 'route' (one limit for everybody),
//   whitelist: IPs and users who are not limited,
//   failure: 'open' or 'closed': what happens while the server cannot decide,
// }. A name that is not in the table is an error when the application starts.

const SECONDS = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86400 };
const seconds = (ms) => Math.ceil(Math.max(ms, 0) / 1000);

// Quota and window: "SLIDE 100 10s" and "TOKEN 100 10 PER 1s" are both q=100;w=10.
function policy(rule) {
  const [algorithm, quota, second, , period = '1s'] = rule.split(' ');
  const bucket = algorithm === 'TOKEN' || algorithm === 'LEAKY';
  const [, number, unit] = /^(\d+)(ms|[smhd])$/.exec(bucket ? period : second);
  const window = number * SECONDS[unit] * (bucket ? quota / second : 1);
  return `q=${quota};w=${Math.ceil(window)}`;
}

export function rateLimit(redis, rules, user = (req) => req.user) {
  return (route) => {
    if (!Object.hasOwn(rules, route)) throw new Error(`rateLimit: no rule ${route} in the table`);
    return limit(redis, route, rules[route], user);
  };
}

function limit(redis, route, rule, user) {
  const names = Object.keys(rule.limits);
  const words = Object.values(rule.limits).join(' ').split(' ');
  const whitelist = rule.whitelist ?? [];
  return async function (req, res, next) {
    const id = user(req) ?? '';
    if (typeof id !== 'string' && !Number.isFinite(id)) { // "[object Object]" would be one limit for all users
      return next(new TypeError('rateLimit: the user must be a string or a number: (req) => req.user?.id'));
    }
    if (whitelist.includes(req.ip) || whitelist.includes(String(id))) return next();
    const who = rule.by === 'route' ? 'all' : rule.by === 'user' && id !== '' ? `user:${id}` : `ip:${req.ip}`;
    let reply;
    try {
      reply = await redis.call('RL.CHARGE', `http:${route}:${who}`, ...words);
    } catch (error) {
      console.error(`rate limit of ${route} not decided, failing ${rule.failure}: ${error.message}`);
      return rule.failure === 'open' ? next() : res.status(503).set('Retry-After', '1').end();
    }
    const [allowed, remaining, retryMs, resetMs, limit, , rows] = reply;
    res.set({
      'X-RateLimit-Limit': String(limit),
      'X-RateLimit-Remaining': String(remaining),
      'X-RateLimit-Reset': String(seconds(resetMs)),
      'RateLimit-Policy': names.map((name) => `"${name}";${policy(rule.limits[name])}`).join(', '),
      RateLimit: rows.map((row, i) => `"${names[i]}";r=${row[1]};t=${seconds(row[0] ? row[3] : row[2])}`).join(', '),
    });
    if (allowed) return next();
    if (retryMs > 0) res.set('Retry-After', String(seconds(retryMs))); // -1: no wait helps
    res.status(429).end();
  };
}
