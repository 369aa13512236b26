import { expect, it } from 'vitest';
import { ChainGenerator } from '../../src/devnet/index.js';
import { runCommand } from '../support/commandLine.js';
import { atEnd } from '../support/cleanup.js';
import { EventReader } from '../support/eventReader.js';
import { GrpcProbe, refusalOf } from '../support/grpcProbe.js';
import type { Message, StreamReader } from '../support/grpcProbe.js';
import { eventually, scratchDirectory } from '../support/program.js';
import { devnetForTest, startArguments, startDaemon, startDaemonHere } from '../support/runningDaemon.js';
import type { DaemonHere, RunningDaemon } from '../support/runningDaemon.js';

const ROOT = 500;
const chainOptions = { seed: 11, rootHeight: ROOT } as const;
const chain = new ChainGenerator(chainOptions);

interface Seen {
  readonly height: number;
  readonly id: string;
}

/** A client that keeps what it has seen, and comes back behind that. */
abstract class Follower {
  readonly seen: Seen[] = [];
  readonly rewinds: Seen[] = [];

  /** Follows a daemon until it has gone, or `leave` is called. */
  abstract follow(daemon: RunningDaemon | DaemonHere): Promise<void>;
  abstract leave(): void;

  get last(): Seen | undefined {
    return this.seen.at(-1);
  }

  get heights(): number[] {
    return this.seen.map(({ height }) => height);
  }

  protected rewind(to: Seen): void {
    this.rewinds.push(to);
    while ((this.last?.height ?? 0) > to.height) this.seen.pop();
  }
}

abstract class GrpcFollower extends Follower {
  #stream: StreamReader | undefined;

  protected abstract call(): Parameters<GrpcProbe['follow']>;
  protected abstract take(message: Message): void;

  async follow(daemon: RunningDaemon | DaemonHere): Promise<void> {
    const probe = new GrpcProbe(daemon.grpcAddress);
    const stream = probe.follow(...this.call());
    this.#stream = stream;
    stream.stream.on('data', (message: Message) => this.take(message));
    await stream.ended().catch(() => undefined);
    probe.close();
  }

  leave(): void {
    this.#stream?.cancel();
  }
}

const seenIn = (message: Message, idField: string): Seen => ({
  height: Number(message['height']),
  id: (message[idField] as Buffer).toString('hex'),
});

class BlocksFollower extends GrpcFollower {
  protected call(): Parameters<GrpcProbe['follow']> {
    const start = (this.last?.height ?? ROOT - 1) + 1;
    return ['SubscribeBlocksFromStartHeight', { start_block_height: start, block_status: 'BLOCK_FINALIZED' }];
  }

  protected take({ block }: Message): void {
    this.seen.push(seenIn(block as Message, 'id'));
  }
}

class HeightsFollower extends GrpcFollower {
  protected call(): Parameters<GrpcProbe['follow']> {
    const { last } = this;
    const start =
      last === undefined
        ? { start_height: ROOT }
        : { last_seen: { height: last.height, block_id: Buffer.from(last.id, 'hex') } };
    return ['SubscribeIndexedHeights', start];
  }

  protected take(message: Message): void {
    const { indexed, rewind } = message as { indexed?: Message; rewind?: Message };
    if (rewind !== undefined) this.rewind(seenIn(rewind, 'block_id'));
    else this.seen.push(seenIn(indexed as Message, 'block_id'));
  }
}

class EventFollower extends Follower {
  #reader: EventReader | undefined;
  #lastId: string | undefined;

  async follow(daemon: RunningDaemon | DaemonHere): Promise<void> {
    const headers = this.#lastId === undefined ? {} : { 'last-event-id': this.#lastId };
    const reader = await EventReader.open(`${daemon.apiUrl}/events?from=${ROOT}`, headers);
    this.#reader = reader;
    for (let next = 0; ; next += 1) {
      const event = await reader.first(next + 1).then(
        (events) => events[next],
        () => undefined,
      );
      if (event === undefined) return;
      if (event.event === 'end') continue;
      this.#lastId = event.id;
      const { height, block_id: id } = event.data as { height: number; block_id: string };
      if (event.event === 'rewind') this.rewind({ height, id });
      else this.seen.push({ height, id });
    }
  }

  leave(): void {
    this.#reader?.close();
  }
}

const upTo = (top: number): Seen[] =>
  Array.from({ length: top - ROOT + 1 }, (_, at) => ({ height: ROOT + at, id: chain.blockId(ROOT + at) }));

it('clients that follow see every height once and in order, through restarts and kill -9', async () => {
  const devnet = await devnetForTest({ ...chainOptions, startHead: ROOT + 20, paused: true });
  const args = startArguments(devnet, scratchDirectory(), '--start-height', 'root');
  const followers = [new BlocksFollower(), new HeightsFollower(), new EventFollower()];
  const everyoneHas = (height: number) =>
    eventually(() => followers.every(({ last }) => (last?.height ?? 0) >= height));

  let top = ROOT + 20;
  for (const signal of ['SIGKILL', 'SIGTERM', 'SIGKILL'] as const) {
    const daemon = await startDaemon(args);
    await daemon.reaches(ROOT);
    const following = followers.map((follower) => follower.follow(daemon));
    await everyoneHas(top);
    // In the middle of what comes next, wherever each of them is.
    top += 60;
    devnet.node.head.set(top);
    await everyoneHas(top - 55);
    await daemon.program.stop(signal);
    await Promise.all(following);
  }

  const daemon = await startDaemonHere(args);
  const following = followers.map((follower) => follower.follow(daemon));
  await everyoneHas(top);
  for (const follower of followers) {
    expect(follower.seen).toEqual(upTo(top));
    expect(follower.rewinds).toEqual([]);
  }
  // Who had everything already may not have its stream yet.
  await daemon.scrapeUntil((metrics) =>
    ['blocks', 'indexed_heights', 'events'].every((kind) => metrics.value('feed_followers', { kind }) === 1),
  );
  for (const follower of followers) follower.leave();
  await Promise.all(following);
  expect(await daemon.program.stop()).toBe(0);
  expect(daemon.program.stderr).toBe('');
});

it('a rewind is announced to those who tell what they have seen', async () => {
  const top = ROOT + 40;
  const target = ROOT + 25;
  const devnet = await devnetForTest({ ...chainOptions, startHead: top, paused: true });
  const dataDir = scratchDirectory();
  const args = startArguments(devnet, dataDir, '--start-height', 'root');
  const followers = [new HeightsFollower(), new EventFollower()];
  const everyoneHas = (height: number) =>
    eventually(() => followers.every(({ last }) => last?.height === height));

  const before = await startDaemonHere(args);
  await before.reaches(ROOT);
  const seeing = followers.map((follower) => follower.follow(before));
  await everyoneHas(top);
  expect(await before.program.stop()).toBe(0);
  await Promise.all(seeing);

  const rewind = ['rewind', '--to', String(target), '--yes', '--network', 'devnet', '--data-dir', dataDir];
  expect(await runCommand(rewind)).toMatchObject({ code: 0 });
  // What was forgotten does not come back before everybody was told.
  devnet.node.head.set(target);
  const after = await startDaemonHere(args);
  await after.reaches(target);
  const probe = new GrpcProbe(after.grpcAddress);
  atEnd(() => probe.close());
  const forgotten = {
    start_block_id: Buffer.from(chain.blockId(top), 'hex'),
    block_status: 'BLOCK_FINALIZED',
  };
  expect(await refusalOf(probe.follow('SubscribeBlocksFromStartBlockID', forgotten).ended())).toMatchObject({
    code: 'NOT_FOUND',
    metadata: { reason: 'unknown_id' },
  });

  const following = followers.map((follower) => follower.follow(after));
  await everyoneHas(target);
  for (const follower of followers) {
    expect(follower.rewinds).toEqual([{ height: target, id: chain.blockId(target) }]);
  }
  devnet.node.head.set(top + 10);
  await everyoneHas(top + 10);
  for (const follower of followers) {
    expect(follower.seen).toEqual(upTo(top + 10));
    follower.leave();
  }
  await Promise.all(following);
});
