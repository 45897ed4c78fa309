/**
 * What the thread of a page is busy with: its processor time, its long tasks, and the time from frame to
 * frame.
 *
 * Processor time says what the page costs whatever else the machine does; frames and long tasks say what a
 * person would notice, on this machine at this moment.
 */

/** To be called before the page is opened. */
export async function installMeter(page) {
  await page.addInitScript(() => {
    const seen = { long: [], gaps: [], last: 0 };
    globalThis.meter = seen;
    new PerformanceObserver((list) => seen.long.push(...list.getEntries().map(({ duration }) => duration))).observe({ entryTypes: ['longtask'] });
    const frame = (now) => {
      if (seen.last !== 0) seen.gaps.push(now - seen.last);
      seen.last = now;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  const cpu = async () => {
    const { metrics } = await session.send('Performance.getMetrics');
    const value = (name) => 1000 * metrics.find((metric) => metric.name === name).value;
    return { task: value('TaskDuration'), script: value('ScriptDuration') };
  };

  /** Runs `act` and says what it took. */
  return async function measure(act) {
    await page.evaluate(() => Object.assign(globalThis.meter, { long: [], gaps: [] }));
    const [before, begun] = [await cpu(), Date.now()];
    await act();
    const [after, ms] = [await cpu(), Date.now() - begun];
    const { long, gaps } = await page.evaluate(() => globalThis.meter);
    const ordered = gaps.sort((a, b) => a - b);
    return {
      ms,
      cpuMs: after.task - before.task,
      scriptMs: after.script - before.script,
      frames: ordered.length,
      gapP99Ms: ordered[Math.floor(0.99 * ordered.length)] ?? 0,
      gapMaxMs: ordered.at(-1) ?? 0,
      longTasks: long.length,
      longestMs: Math.max(0, ...long),
    };
  };
}

export function inWords({ ms, cpuMs, scriptMs, frames, gapP99Ms, gapMaxMs, longTasks, longestMs }) {
  const n = (value) => value.toFixed(0);
  return `${(ms / 1000).toFixed(1)} s: ${n(cpuMs)} ms of processor (${n(scriptMs)} ms script), ${frames} frames, ${n(gapP99Ms)} ms between them at p99 and ${n(gapMaxMs)} at most, ${longTasks} long tasks${longTasks > 0 ? ` of up to ${n(longestMs)} ms` : ''}`;
}
