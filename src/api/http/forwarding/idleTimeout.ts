import type { Clock, Timer } from '../../../runtime/index.js';

/** Notices when nothing has moved for a while, with a single timer. `onSilent` is called once. */
export function idleTimeout({
  clock,
  isExcused,
  onSilent,
}: {
  readonly clock: Clock;
  /** True while nothing can be expected of the other side: silence then counts from now. */
  readonly isExcused: () => boolean;
  readonly onSilent: () => void;
}) {
  let limitMs = 0;
  let movedAtMs = 0;
  let timer: Timer | undefined;
  const moved = (): void => {
    movedAtMs = clock.monotonic();
  };
  const wait = (forMs: number): void => {
    timer = clock.setTimer(forMs, () => {
      if (isExcused()) moved();
      const leftMs = movedAtMs + limitMs - clock.monotonic();
      if (leftMs > 0) wait(leftMs);
      else onSilent();
    });
  };
  const end = (): void => timer?.cancel();
  return {
    /** Starts or restarts. */
    begin: (forMs: number): void => {
      end();
      limitMs = forMs;
      moved();
      wait(forMs);
    },
    moved,
    end,
  };
}
