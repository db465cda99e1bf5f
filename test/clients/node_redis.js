// What a node-redis client does, in RESP2 or RESP3: node node_redis.js host port protocol
'use strict';
const assert = require('node:assert/strict');
const { setImmediate } = require('node:timers/promises');
const { createClient, createClientPool, RESP_TYPES } = require('redis');

const [host, port, protocol] = process.argv.slice(2);
const open = [];

async function connect(options) {
  const client = createClient({ socket: { host, port, reconnectStrategy: false }, RESP: Number(protocol), ...options });
  client.on('error', (err) => console.error(err));
  open.push(client);
  return client.connect();
}

async function commands() {
  const redis = await connect({ name: 'node-redis' });
  await redis.flushAll();
  assert.equal(await redis.clientGetName(), 'node-redis');
  assert.equal(await redis.set('k', 'v', { PX: 60000 }), 'OK');
  assert.equal(await redis.get('k'), 'v');
  assert.equal(await redis.get('nosuch'), null);
  const buffers = redis.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  const binary = Buffer.from([0, 13, 10, 255, 254]);
  await redis.set('binary', binary);
  assert.deepEqual(await buffers.get('binary'), binary);
  await redis.hSet('h', { a: '1', b: '2' });
  assert.deepEqual({ ...(await redis.hGetAll('h')) }, { a: '1', b: '2' });
  assert.equal(await redis.zAdd('z', [{ score: 1.5, value: 'm' }]), 1);
  assert.equal(await redis.zScore('z', 'm'), 1.5);
  await assert.rejects(redis.incr('k'), /not an integer/);
  await redis.mSet(Array.from({ length: 200 }, (_, i) => [`scan:${i}`, String(i)]));
  const found = new Set();
  for await (const keys of redis.scanIterator({ MATCH: 'scan:*' })) keys.forEach((key) => found.add(key));
  assert.equal(found.size, 200);
}

async function limiters() {
  const redis = await connect({});
  const throttle = () => redis.sendCommand(['CL.THROTTLE', 'limit', '4', '10', '100', '5']);
  assert.deepEqual(await throttle(), [0, 5, 0, -1, 50]);
  assert.equal((await throttle())[0], 1);
  const [entry] = await redis.commandInfo(['CL.THROTTLE']);
  assert.deepEqual([entry.name, entry.arity, entry.firstKeyIndex, entry.lastKeyIndex, entry.step], ['cl.throttle', -5, 1, 1, 1]);
}

// What is asked for in one turn leaves in one pipeline.
async function pipelines() {
  const redis = await connect({});
  const counts = await Promise.all(Array.from({ length: 1000 }, () => redis.incr('count')));
  assert.deepEqual(counts, Array.from({ length: 1000 }, (_, i) => i + 1));
}

async function transactions() {
  const redis = await connect({});
  const other = await connect({});
  assert.deepEqual(await redis.multi().set('t', 1).incr('t').addCommand(['CL.THROTTLE', 'tl', '15', '30', '60']).exec(),
    ['OK', 2, [0, 16, 15, -1, 2]]);
  await redis.watch('t');
  await other.set('t', 10);
  await assert.rejects(redis.multi().incr('t').exec(), /watch/i);
  assert.equal(await redis.get('t'), '10');
}

async function scripts() {
  const redis = await connect({});
  const script = 'return redis.call("INCRBY", KEYS[1], ARGV[1])';
  assert.equal(await redis.eval(script, { keys: ['s'], arguments: ['5'] }), 5);
  const sha = await redis.scriptLoad(script);
  assert.equal(await redis.evalSha(sha, { keys: ['s'], arguments: ['5'] }), 10);
}

async function databases() {
  const redis = await connect({ database: 3 });
  await redis.set('k', 'three');
  await redis.select(0);
  assert.equal(await redis.get('k'), 'v');
}

async function messages() {
  const subscriber = await connect({});
  const publisher = await connect({});
  const got = [];
  let all;
  const done = new Promise((resolve) => { all = resolve; });
  const listen = (message, channel) => got.push([channel, message]) === 3 && all();
  await subscriber.subscribe('channel', listen);
  await subscriber.pSubscribe('chan*', listen);
  await subscriber.sSubscribe('shard', listen);
  assert.equal(await publisher.publish('channel', 'hello'), 2);
  assert.equal(await publisher.sPublish('shard', 'hi'), 1);
  await done;
  assert.deepEqual(got.sort(), [['channel', 'hello'], ['channel', 'hello'], ['shard', 'hi']]);
  if (protocol === '3') assert.equal(await subscriber.get('k'), 'v');
  await subscriber.unsubscribe('channel');
  await subscriber.pUnsubscribe('chan*');
  await subscriber.sUnsubscribe('shard');
  assert.equal(String(await subscriber.set('after', 1)), 'OK');
}

async function blocking() {
  const waiter = await connect({});
  const popped = waiter.blPop('list', 10);
  await (await connect({})).lPush('list', 'x');
  assert.deepEqual({ ...(await popped) }, { key: 'list', element: 'x' });
  assert.equal(await waiter.blPop('list', 0.01), null);
}

async function pools() {
  const pool = await createClientPool({ socket: { host, port }, RESP: Number(protocol) }).connect();
  const counts = await Promise.all(Array.from({ length: 100 }, () => pool.execute((client) => client.incr('pooled'))));
  assert.equal(new Set(counts).size, 100);
  await pool.close();
}

// A cache in the client is told by the server what has changed.
async function tracking() {
  if (protocol !== '3') return;
  const redis = await connect({ clientSideCache: { ttl: 0, maxEntries: 0, evictPolicy: 'LRU' } });
  const other = await connect({});
  await other.set('cached', '1');
  for (let i = 2; i < 20; i++) {
    assert.equal(await redis.get('cached'), String(i - 1));
    await other.set('cached', String(i));
    for (const end = Date.now() + 10000; (await redis.get('cached')) !== String(i);) {
      assert.ok(Date.now() < end, 'the change is never told');
      await setImmediate(); // a get that the cache answers lets nothing be read
    }
  }
}

async function main() {
  for (const part of [
    commands, limiters, pipelines, transactions, scripts, databases, messages, blocking, pools, tracking,
  ]) {
    await part();
    console.log(part.name);
  }
  open.forEach((client) => client.destroy());
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
