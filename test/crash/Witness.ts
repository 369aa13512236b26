import type { Program } from '../support/program.js';
import type { Testimony } from './Steps.js';

/** What processes said of one store before they died: none of it may be lost. */
export class Witness {
  /** The highest watermark that anybody was told of; `undefined` while nobody was told of a store. */
  watermark: number | undefined;
  /** Heights that were reported durable, also above the watermark. */
  readonly heights = new Set<number>();
  readonly writes: string[] = [];
  /** How much of which log was on the disk when the last write was answered. */
  log: { readonly file: string; readonly bytes: number } | undefined;
  end: Extract<Testimony, { testimony: 'dies' | 'lives' }> | undefined;

  hear({ stdout }: Program): void {
    this.end = undefined;
    // The last line may have been cut off with the process.
    for (const line of stdout.slice(0, stdout.lastIndexOf('\n') + 1).split('\n')) {
      if (line.startsWith('{')) this.#take(JSON.parse(line) as Record<string, unknown>);
    }
  }

  sawWatermark(height: number): void {
    this.watermark = Math.max(this.watermark ?? 0, height);
  }

  #take(line: Record<string, unknown>): void {
    if ('testimony' in line) this.#testify(line as unknown as Testimony);
    else if (line['msg'] === 'height is indexed') this.heights.add(Number(line['height']));
    else if (line['msg'] === 'batch is durable') this.sawWatermark(Number(line['latestIndexedHeight']));
    else if (line['msg'] === 'new store created') this.sawWatermark(Number(line['height']) - 1);
  }

  #testify(testimony: Testimony): void {
    if (testimony.testimony === 'synced') {
      this.writes.push(testimony.step);
      this.log = testimony;
    } else if (testimony.testimony !== 'durable') this.end = testimony;
    if ('heights' in testimony) for (const height of testimony.heights) this.heights.add(height);
    if ('watermark' in testimony && testimony.watermark !== undefined) this.sawWatermark(testimony.watermark);
  }
}
