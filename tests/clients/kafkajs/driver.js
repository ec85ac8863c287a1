// Reads one JSON object per line, does what it says with kafkajs, writes one back.
"use strict";
const readline = require("readline");
const { Kafka, CompressionCodecs, CompressionTypes, logLevel } = require("kafkajs");
const lz4 = require("lz4js");
const snappy = require("kafkajs-snappy");
const zstd = require("@bokuweb/zstd-wasm");

const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};

// kafkajs brings gzip; the others are given to it.
const codec = (library) => () => ({
  compress: async (encoder) => Buffer.from(library.compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(library.decompress(buffer)),
});
CompressionCodecs[CompressionTypes.Snappy] = snappy;
CompressionCodecs[CompressionTypes.LZ4] = codec(lz4);
CompressionCodecs[CompressionTypes.ZSTD] = codec(zstd);

const open = new Map(); // name -> producer, or consumer with what it read

const bytes = (text) => (text === null || text === undefined ? null : Buffer.from(text, "latin1"));
const text = (buffer) => (buffer === null || buffer === undefined ? null : buffer.toString("latin1"));
const client = (asked) =>
  new Kafka({
    brokers: [asked.kafka],
    clientId: "tests",
    logLevel: logLevel.WARN,
    retry: { initialRetryTime: 50, retries: 8 },
  });

function record(from) {
  return {
    key: bytes(from.key),
    value: bytes(from.value),
    partition: from.partition,
    timestamp: from.timestamp === undefined ? undefined : String(from.timestamp),
    headers: Object.fromEntries(Object.entries(from.headers || {}).map(([k, v]) => [k, bytes(v)])),
  };
}

function read(partition, message) {
  const headers = Object.entries(message.headers || {}).map(([k, v]) => [k, text(v)]);
  return {
    partition,
    offset: Number(message.offset),
    timestamp: Number(message.timestamp),
    key: text(message.key),
    value: text(message.value),
    headers: Object.fromEntries(headers),
  };
}

const commands = {
  async producer(asked) {
    const producer = client(asked).producer({ allowAutoTopicCreation: true, ...asked.config });
    await producer.connect();
    open.set(asked.name, { producer });
  },

  // [partition, first offset] of each batch. In a transaction, if one was begun.
  async send({ name, topic, records, codec = "none", acks = -1 }) {
    const { producer, transaction } = open.get(name);
    const sent = await (transaction || producer).send({
      topic, acks, compression: CODECS[codec], messages: records.map(record),
    });
    return sent.map((each) => [each.partition, Number(each.baseOffset)]);
  },

  async begin({ name }) {
    const held = open.get(name);
    held.transaction = await held.producer.transaction();
  },

  async end({ name, commit, offsets }) {
    const held = open.get(name);
    if (offsets) await held.transaction.sendOffsets(offsets);
    await (commit ? held.transaction.commit() : held.transaction.abort());
    held.transaction = undefined;
  },

  // Consumes in the background from now on; `read` tells what came.
  async consumer(asked) {
    const consumer = client(asked).consumer({ maxWaitTimeInMs: 100, ...asked.config });
    const held = { consumer, values: [], partitions: [], joins: 0, reached: {} };
    open.set(asked.name, held);
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      held.joins += 1;
      held.partitions = Object.values(payload.memberAssignment).flat();
    });
    consumer.on(consumer.events.END_BATCH_PROCESS, ({ payload }) => {
      held.reached[payload.partition] = Number(payload.lastOffset) + 1;
    });
    await consumer.connect();
    await consumer.subscribe({ topics: [asked.topic], fromBeginning: true });
    await consumer.run({
      autoCommit: asked.autoCommit || false,
      eachMessage: async ({ partition, message }) => { held.values.push(read(partition, message)); },
    });
  },

  async read({ name }) { return open.get(name).values; },
  async assignment({ name }) { return open.get(name).partitions; },
  // By partition: where the last answer ended that had anything in it.
  async reached({ name }) { return open.get(name).reached; },
  async joins({ name }) { return open.get(name).joins; },

  async commit({ name, offsets }) { await open.get(name).consumer.commitOffsets(offsets); },

  async close({ name }) {
    const held = open.get(name);
    open.delete(name);
    await (held.producer || held.consumer || held.admin).disconnect();
  },

  // One method of the Admin client, by its name. It stays, as it must have seen a topic's metadata
  // before it deletes records.
  async admin(asked) {
    const name = `admin of ${asked.kafka}`;
    if (!open.has(name)) {
      open.set(name, { admin: client(asked).admin() });
      await open.get(name).admin.connect();
    }
    return open.get(name).admin[asked.method](...(asked.arguments || []));
  },
};

async function answer(line) {
  try {
    const asked = JSON.parse(line);
    return { result: (await commands[asked.do](asked)) ?? null };
  } catch (raised) {
    console.error(raised);
    const first = raised.errors ? raised.errors[0] : raised;
    return { error: first.type || first.name, message: String(first.message) };
  }
}

async function main() {
  await zstd.init();
  for await (const line of readline.createInterface({ input: process.stdin }))
    process.stdout.write(JSON.stringify(await answer(line)) + "\n");
  await Promise.all([...open.keys()].map((name) => commands.close({ name })));
  process.exit(0);
}

main();
