// What an ioredis client does: node ioredis.js host port
'use strict';
const assert = require('node:assert/strict');
const { once } = require('node:events');
const Redis = require('ioredis');

const [host, port] = process.argv.slice(2);
const open = [];

function connect(options) {
  const client = new Redis({ host, port, maxRetriesPerRequest: 0, retryStrategy: null, ...options });
  open.push(client);
  return client;
}

async function commands() {
  const redis = connect({ connectionName: 'ioredis' });
  await redis.flushall();
  assert.equal(await redis.client('GETNAME'), 'ioredis');
  assert.equal(await redis.set('k', 'v', 'PX', 60000), 'OK');
  assert.equal(await redis.get('k'), 'v');
  assert.equal(await redis.get('nosuch'), null);
  const binary = Buffer.from([0, 13, 10, 255, 254]);
  await redis.set('binary', binary);
  assert.deepEqual(await redis.getBuffer('binary'), binary);
  await redis.hset('h', { a: '1', b: '2' });
  assert.deepEqual(await redis.hgetall('h'), { a: '1', b: '2' });
  await assert.rejects(redis.incr('k'), /not an integer/);
  const found = [];
  await redis.mset(...Array.from({ length: 200 }, (_, i) => [`scan:${i}`, i]).flat());
  for await (const keys of redis.scanStream({ match: 'scan:*' })) found.push(...keys);
  assert.equal(new Set(found).size, 200);
}

async function limiters() {
  const redis = connect({});
  assert.deepEqual(await redis.call('CL.THROTTLE', 'limit', 4, 10, 100, 5), [0, 5, 0, -1, 50]);
  redis.addBuiltinCommand('cl.throttle');
  assert.equal((await redis['cl.throttle']('limit', 4, 10, 100))[0], 1);
}

async function pipelines() {
  const redis = connect({ enableAutoPipelining: true });
  const counts = await Promise.all(Array.from({ length: 1000 }, () => redis.incr('count')));
  assert.deepEqual(counts, Array.from({ length: 1000 }, (_, i) => i + 1));
  const replies = await redis.pipeline().set('p', 1).call('CL.THROTTLE', 'pl', 15, 30, 60).incr('p').lpush('p', 'x').exec();
  assert.deepEqual(replies.slice(0, 3), [[null, 'OK'], [null, [0, 16, 15, -1, 2]], [null, 2]]);
  assert.match(replies[3][0].message, /^WRONGTYPE/);
}

async function transactions() {
  const redis = connect({});
  const other = connect({});
  assert.deepEqual(await redis.multi().set('t', 1).incr('t').call('CL.THROTTLE', 'tl', 15, 30, 60).exec(),
    [[null, 'OK'], [null, 2], [null, [0, 16, 15, -1, 2]]]);
  await redis.watch('t');
  await other.set('t', 10);
  assert.equal(await redis.multi().incr('t').exec(), null);
  assert.equal(await redis.get('t'), '10');
}

async function scripts() {
  const redis = connect({});
  redis.defineCommand('addTo', { numberOfKeys: 1, lua: 'return redis.call("INCRBY", KEYS[1], ARGV[1])' });
  assert.equal(await redis.addTo('s', 5), 5);
  assert.equal(await redis.addTo('s', 5), 10);
}

async function databases() {
  const redis = connect({ db: 3 });
  await redis.set('k', 'three');
  assert.equal(await connect({}).get('k'), 'v');
  await redis.select(0);
  assert.equal(await redis.get('k'), 'v');
}

async function messages() {
  const subscriber = connect({});
  const publisher = connect({});
  await subscriber.subscribe('channel');
  await subscriber.psubscribe('chan*');
  const message = once(subscriber, 'message');
  const pmessage = once(subscriber, 'pmessage');
  assert.equal(await publisher.publish('channel', 'hello'), 2);
  assert.deepEqual(await message, ['channel', 'hello']);
  assert.deepEqual(await pmessage, ['chan*', 'channel', 'hello']);
  await subscriber.unsubscribe('channel');
  await subscriber.punsubscribe('chan*');
  assert.equal(await subscriber.set('after', 1), 'OK');
}

async function blocking() {
  const waiter = connect({});
  const popped = waiter.blpop('list', 10);
  await connect({}).lpush('list', 'x');
  assert.deepEqual(await popped, ['list', 'x']);
  assert.equal(await waiter.blpop('list', 0.01), null);
}

async function monitoring() {
  const monitor = await connect({}).monitor();
  open.push(monitor);
  const seen = new Promise((resolve) => {
    monitor.on('monitor', (_time, args) => args[0].toLowerCase() === 'getset' && resolve(args));
  });
  await connect({}).getset('k', 'monitored');
  assert.deepEqual((await seen).slice(1), ['k', 'monitored']);
}

async function main() {
  for (const part of [commands, limiters, pipelines, transactions, scripts, databases, messages, blocking, monitoring]) {
    await part();
    console.log(part.name);
  }
  open.forEach((client) => client.disconnect());
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
