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
  req.user = req.get('X-User'); // in place of a login
  next();
});
app.use(rateLimit(redis, rules));
app.all('/api/:page', (req, res) => res.send(req.params.page));
redis.once('ready', () => app.listen(process.env.PORT ?? 8000, '127.0.0.1'));
