// Every final result, and the best of them so far.
import { useMemo } from 'preact/hooks'
import type { Experiment, Results } from './api'
import { axis, Chart, tip, tooltip, zooms, type Clicked, type Option } from './chart'
import { clock, number } from './format'
import { Card, Choice, useKept, word } from './parts'
import { go } from './router'
import { colour, ofState } from './theme'

type By = 'trial' | 'time'
type Scale = 'linear' | 'log'

interface Final { sequence: number; x: number; value: number; state: string }

export function BestSoFar({ e, results, dark }: { e: Experiment; results: Results; dark: boolean }) {
  const [by, setBy] = useKept<By>('best-by', 'trial')
  const [scale, setScale] = useKept<Scale>('best-scale', 'linear')
  const found = useMemo(() => finals(results, by), [results, by])
  const positive = found.every(f => f.value > 0)
  const log = scale === 'log' && positive
  const option = useMemo(() => draw(e, results, found, by, log), [e.minimize, found, by, log, dark])
  const best = found.length ? number(e.best?.metric) : 'none yet'
  return <Card title="Best so far" more={<>
    <Choice<By> label="Along" value={by} onChange={setBy} of={[['trial', 'by trial'], ['time', 'by time']]} />
    <Choice<Scale> label="Scale" value={log ? 'log' : 'linear'} onChange={s => positive && setScale(s)} of={[['linear', 'linear'], ['log', positive ? 'log' : 'log (needs > 0)']]} />
  </>}>
    <Chart option={option} height={320} dark={dark} label={`${found.length} results; the best is ${best}, ${e.minimize ? 'less' : 'more'} is better`}
      onClick={(what: Clicked) => { const f = what.data as { sequence?: number }; if (f?.sequence !== undefined) go(`/e/${e.id}/t/${f.sequence}`) }} />
  </Card>
}

function finals(r: Results, by: By): Final[] {
  const all: Final[] = []
  r.sequence.forEach((sequence, i) => {
    const value = r.metric[i]
    if (value !== null && Number.isFinite(value) && r.end[i]) all.push({ sequence, x: by === 'trial' ? sequence : r.end[i], value, state: r.state[i] })
  })
  return all.sort((a, b) => a.x - b.x)
}

/** steps are the corners of the best so far. Steps of less than a pixel are left out: the
 * line would be drawn aslant past them. */
function steps(found: Final[], better: (a: number, b: number) => boolean, log: boolean): [number, number][] {
  const scale = log ? Math.log : (v: number) => v
  const values = found.map(f => scale(f.value))
  const pixel = (values.reduce((a, b) => Math.max(a, b), -Infinity) - values.reduce((a, b) => Math.min(a, b), Infinity)) / 80
  const course: [number, number][] = []
  let best = NaN
  for (const f of found) {
    if (!Number.isNaN(best) && !better(f.value, best)) continue
    best = f.value
    const last = course.at(-1)
    if (last && Math.abs(scale(best) - scale(last[1])) < pixel) continue
    if (last) course.push([f.x, last[1]])
    course.push([f.x, best])
  }
  const last = course.at(-1)
  if (last) course.push([found.at(-1)!.x, last[1]])
  return course
}

function draw(e: Experiment, r: Results, found: Final[], by: By, log: boolean): Option {
  const better = (a: number, b: number) => e.minimize ? a < b : a > b
  const course = steps(found, better, log)
  const failed = r.sequence.flatMap((sequence, i) => r.state[i] === 'FAILED' && r.metric[i] === null && r.end[i]
    ? [{ value: [by === 'trial' ? sequence : r.end[i], 0], sequence }] : [])
  const point = (f: Final) => ({ value: [f.x, f.value], sequence: f.sequence, state: f.state })
  const ended = (state: (s: string) => boolean) => found.filter(f => state(f.state)).map(point)
  return {
    grid: { left: 8, right: 14, top: 18, bottom: 34, containLabel: true },
    xAxis: [axis({ type: by === 'trial' ? 'value' : 'time', scale: true, minInterval: by === 'trial' ? 1 : undefined, splitLine: { show: false } })],
    yAxis: [axis({ type: log ? 'log' : 'value', scale: true }), { type: 'value', min: 0, max: 1, show: false }],
    dataZoom: zooms(),
    tooltip: tooltip((what: { data: { value: [number, number]; sequence?: number; state?: string } | [number, number] }) => {
      const d = what.data
      if (Array.isArray(d)) return tip([`best so far ${number(d[1])}`])
      return tip([`trial ${d.sequence}`, d.state ? `${number(d.value[1])} · ${word(d.state)}` : 'failed', by === 'time' ? clock(d.value[0]) : undefined])
    }),
    series: [
      { id: 'best', type: 'line', data: course, symbol: 'none', lineStyle: { color: colour('accent'), width: 2.5 }, areaStyle: log ? undefined : { color: colour('glow'), origin: e.minimize ? 'end' : 'start' }, z: 2, tooltip: { show: false } },
      { id: 'results', type: 'scatter', data: ended(s => s !== 'EARLY_STOPPED'), symbolSize: found.length > 2000 ? 3 : 6, large: found.length > 5000,
        itemStyle: { color: ofState('SUCCEEDED'), opacity: 0.55 }, emphasis: { scale: 1.8 }, z: 3, cursor: 'pointer' },
      { id: 'early', type: 'scatter', data: ended(s => s === 'EARLY_STOPPED'), symbolSize: 7, itemStyle: { color: 'transparent', borderColor: ofState('EARLY_STOPPED'), borderWidth: 1.5 }, z: 3 },
      { id: 'failed', type: 'scatter', yAxisIndex: 1, data: failed, symbol: 'rect', symbolSize: [2, 10], itemStyle: { color: ofState('FAILED') }, z: 3 },
    ],
  }
}
