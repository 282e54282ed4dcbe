// What trials reported on the way, a line for each.
import { useMemo } from 'preact/hooks'
import type { Curve, Curves, Experiment } from './api'
import { axis, Chart, tip, tooltip, zooms, type Clicked, type Option } from './chart'
import { number } from './format'
import { useResource, type Live } from './live'
import { Card, Choice, useKept, word } from './parts'
import { go } from './router'
import { colour, ofState } from './theme'

const limit = 2000 // trials: those that run and the best of the others

type By = 'step' | 'time'
type Scale = 'linear' | 'log'

export function CurvesCard({ e, live, dark }: { e: Experiment; live: Live; dark: boolean }) {
  const [by, setBy] = useKept<By>('curves-by', 'step')
  const [scale, setScale] = useKept<Scale>('curves-scale', 'linear')
  const [smooth, setSmooth] = useKept('curves-smooth', 0)
  const data = useResource<Curves>(`/experiments/${e.id}/curves?points=120&limit=${limit}`, live.version).data
  const option = useMemo(() => data && draw(e, data.curves, by, scale === 'log', smooth), [data, by, scale, smooth, dark])
  if (!data || !option) return <p class="faint">…</p>
  const open = (what: Clicked) => { const d = what.data as { sequence?: number }; if (d?.sequence !== undefined) go(`/e/${e.id}/t/${d.sequence}`) }
  return <Card title="Intermediate results" wide more={<>
    <label class="slide">Smooth <input type="range" min="0" max="0.95" step="0.05" value={smooth} onInput={event => setSmooth(Number(event.currentTarget.value))} /></label>
    <Choice<By> label="Along" value={by} onChange={setBy} of={[['step', 'by step'], ['time', 'by time']]} />
    <Choice<Scale> label="Scale" value={scale} onChange={setScale} of={[['linear', 'linear'], ['log', 'log']]} />
  </>}>
    {data.curves.length === 0 ? <p class="faint">No trial has reported on the way yet.</p>
      : <Chart option={option} height={520} dark={dark} onClick={open} label={`the curves of ${data.curves.length} trials`} />}
    <p class="faint">{data.curves.length >= limit ? `${data.curves.length} of ${data.total} trials: those that run, and the best. ` : ''}Brighter is better; what runs now is blue. Along the bottom: {by === 'step' ? 'steps' : 'seconds since the first point'}. Click a line for its trial; hold shift and turn the wheel to zoom.</p>
  </Card>
}

/** smoothed is an exponential mean, without the drag towards where it began. */
export function smoothed(values: number[], weight: number): number[] {
  if (!weight) return values
  let sum = 0, part = 0
  return values.map(v => {
    sum = sum * weight + (1 - weight) * v
    part = part * weight + (1 - weight)
    return sum / part
  })
}

/** nice are round numbers around a range. */
function nice(low: number, high: number): [number, number] {
  const step = 10 ** Math.floor(Math.log10(high - low || Math.abs(high) || 1)) / 2
  return [Math.floor(low / step) * step, Math.ceil(high / step) * step]
}

function draw(e: Experiment, curves: Curve[], by: By, log: boolean, smooth: number): Option {
  const ends = curves.map(c => c.value.at(-1)!).filter(v => Number.isFinite(v)).sort((a, b) => e.minimize ? b - a : a - b)
  const rank = (v: number) => { let i = 0; while (i < ends.length - 1 && (e.minimize ? ends[i] > v : ends[i] < v)) i++; return ends.length < 2 ? 1 : i / (ends.length - 1) }
  const scale = ['c0', 'c1', 'c2', 'c3', 'c4'].map(colour)
  const line = (c: Curve) => {
    const good = rank(c.value.at(-1)!), runs = c.state === 'RUNNING'
    const values = smoothed(c.value, smooth)
    const coords = values.flatMap((v, i) => log && v <= 0 ? [] : [[by === 'step' ? c.step[i] : c.time[i] / 1000, v]])
    return { coords, sequence: c.sequence, state: c.state, last: c.value.at(-1)!, lineStyle: {
      color: runs ? ofState('RUNNING') : scale[Math.min(4, Math.floor(good * 5))], opacity: runs ? 0.95 : curves.length > 300 ? 0.25 + 0.4 * good : 0.45 + 0.5 * good, width: runs || good > 0.97 ? 2 : 1.2 } }
  }
  const lines = curves.map(line).filter(l => l.coords.length > 1)
  const single = curves.map(line).filter(l => l.coords.length === 1).map(l => ({ value: l.coords[0], sequence: l.sequence, state: l.state, last: l.last, itemStyle: { color: l.lineStyle.color } }))
  const xs = lines.flatMap(l => [l.coords[0][0], l.coords.at(-1)![0]]), ys: number[] = []
  for (const l of lines) for (const c of l.coords) ys.push(c[1])
  ys.sort((a, b) => a - b)
  const at = (q: number) => ys[Math.round((ys.length - 1) * q)]
  // One curve that explodes would press all others flat.
  const cut = ys.length > 50 && !log && at(1) - at(0) > 20 * (at(0.98) - at(0.02))
  const [low, high] = ys.length ? nice(at(cut ? 0.01 : 0), at(cut ? 0.99 : 1)) : [0, 1]
  return {
    grid: { left: 8, right: 16, top: 16, bottom: 36, containLabel: true },
    xAxis: [axis({ type: 'value', scale: true, min: xs.length ? Math.min(...xs) : undefined, max: xs.length ? Math.max(...xs) : undefined, splitLine: { show: false } })],
    yAxis: [axis({ type: log ? 'log' : 'value', scale: true, min: log ? at(0) : low, max: log ? at(1) : high, axisLabel: { color: colour('faint'), fontSize: 11, formatter: (v: number) => number(v) } })],
    dataZoom: zooms(),
    tooltip: tooltip((what: { data: { sequence: number; state: string; last: number } }) => tip([`trial ${what.data.sequence}`, `${number(what.data.last)} · ${word(what.data.state)}`])),
    series: [
      { type: 'lines', coordinateSystem: 'cartesian2d', polyline: true, data: lines, lineStyle: { width: 1.2 }, emphasis: { lineStyle: { width: 4, opacity: 1 } }, progressive: 400, clip: true, cursor: 'pointer' },
      { type: 'scatter', data: single, symbolSize: 6 },
    ],
  }
}
