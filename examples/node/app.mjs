// A small Express application around the middleware: PORT=8000 node app.mjs
import express from 'express';
import { Redis } from 'ioredis';
import { rateLimit } from './ratelimit.mjs';

const rules = {
  '/api/items': {
    limits: { items: 'SLIDE 100 10s' },
    by: 'ip',
    failure: 'open',
    whitelist: ['127.0.0.7', 'monitor'],
  },
  '/api/login': { limits: { minute: 'SLIDE 5 1m', day: 'FIXED 50 1d' }, by: 'user', failure: 'closed' },
  '/api/users/:id': { limits: { users: 'SLIDE 3 1m' }, by: 'ip', failure: 'open' },
  '/api/export': { limits: { export: 'TOKEN 10 1 PER 1s' }, by: 'route', failure: 'closed' },
};
const redis = new Redis({
  port: process.env.REDIS_PORT ?? 6379,
  host: '127.0.0.1',
  connectTimeout: 500,
  commandTimeout: 500,
  enableOfflineQueue: false, // while the server is away: fail at once, do not queue
  maxRetriesPerRequest: 0, // a charge whose reply got lost may have been made: do not send it twice
});
redis.on('error', () => {});

const app = express();
app.use((req, res, next) => {
  const id = req.get('X-User'); // in place of a login
  if (id) req.user = { id };
  next();
});
const limit = rateLimit(redis, rules, (req) => req.user?.id);
for (const route of Object.keys(rules)) app.all(route, limit(route), (req, res) => res.send(req.path));
app.all('/api/free', (req, res) => res.send('free'));
redis.once('ready', () => app.listen(process.env.PORT ?? 8000, '127.0.0.1'));
