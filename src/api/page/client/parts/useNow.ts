import { useEffect, useState } from 'preact/hooks';

const SECOND_MS = 1_000;

/** Of `performance.now()`: moves every second while `isRunning`. */
export function useNow(isRunning: boolean): number {
  const [nowMs, setNow] = useState(() => performance.now());
  useEffect(() => {
    if (!isRunning) return undefined;
    const timer = setInterval(() => setNow(performance.now()), SECOND_MS);
    return () => clearInterval(timer);
  }, [isRunning]);
  return nowMs;
}
