// What results depend on: which parameters matter, how, and what is given up for what.
import { useEffect, useMemo, useState } from 'preact/hooks'
import type { Experiment, Importance, Results } from './api'
import { axis, Chart, tip, tooltip, zooms, type Clicked, type Option } from './chart'
import { number, short } from './format'
import { useResource, type Live } from './live'
import { measured, textOf, type Dimension } from './parallel'
import { Card } from './parts'
import { Go, go } from './router'
import { colour } from './theme'

const theMetric = '' // the name of the default metric among those of a result

export function Analysis({ e, live, dark }: { e: Experiment; live: Live; dark: boolean }) {
  const results = useResource<Results>(`/experiments/${e.id}/results`, live.version).data
  const [metric, setMetric] = useState(theMetric)
  const [across, setAcross] = useState('')
  const [most, setMost] = useState('') // the parameter that matters most
  const [against, setAgainst] = useState('')
  if (!results) return <p class="faint">…</p>
  const keys = [theMetric, ...Object.keys(results.metrics)]
  const judged = metric === theMetric ? results : { ...results, metric: results.metrics[metric] ?? results.metric }
  return <>
    {keys.length > 1 && <p><Select label="Result" value={metric} onChange={setMetric} of={keys.map(k => [k, nameOf(k)])} /></p>}
    <div class="grid even">
      <ImportanceCard e={e} live={live} metric={metric} onChoose={setAcross} onKnown={setMost} />
      <Landscape e={e} results={judged} metric={metric} across={across || most} against={against} onAcross={setAcross} onAgainst={setAgainst} dark={dark} />
      {keys.length > 1 && <TradeOff e={e} results={results} keys={keys} dark={dark} />}
      {keys.slice(1).map(key => <Course key={key} e={e} results={results} metric={key} dark={dark} />)}
    </div>
  </>
}

const nameOf = (metric: string) => metric === theMetric ? 'metric' : metric

/** Select is one of many. */
function Select({ label, value, of, onChange }: { label: string; value: string; of: [string, string][]; onChange: (value: string) => void }) {
  return <label class="slide">{label} <select aria-label={label} value={value} onChange={event => onChange(event.currentTarget.value)}>
    {of.map(([name, text]) => <option key={name} value={name}>{text}</option>)}</select></label>
}

function ImportanceCard({ e, live, metric, onChoose, onKnown }: {
  e: Experiment; live: Live; metric: string; onChoose: (name: string) => void; onKnown: (most: string) => void
}) {
  const [again, ask] = useState(0)
  const { data, error } = useResource<Importance>(`/experiments/${e.id}/importance?metric=${encodeURIComponent(metric)}`, live.version + again)
  useEffect(() => {
    if (!data?.pending) return
    const timer = window.setTimeout(() => ask(n => n + 1), 700)
    return () => window.clearTimeout(timer)
  }, [data])
  useEffect(() => { if (data && !data.pending) onKnown(data.parameters[0]?.name ?? '') }, [data])
  const few = data && data.trials < data.least
  return <Card title="Which parameters matter">
    {error && <p class="notice">{error}</p>}
    {(!data || data.pending && !data.trials) && <p class="faint">being computed …</p>}
    {data && !data.pending && few && <p class="faint">That takes {data.least} results; there are {data.trials} so far.</p>}
    {data && !few && data.parameters.length === 0 && <p class="faint">No parameter varied.</p>}
    {data && <ol class="bars">{data.parameters.map(p => <li key={p.name}>
      <button type="button" class="quiet" onClick={() => onChoose(p.name)} title={`show results across ${short(p.name)}`}>{short(p.name)}</button>
      <span class="bar" aria-hidden="true"><i style={{ width: `${100 * p.share}%` }} /></span><b>{Math.round(100 * p.share)} %</b>
    </li>)}</ol>}
    {data && data.parameters.length > 0 && <>
      <p class={data.explained < 0.3 ? 'why' : 'faint'}>From {data.trials} results. The forest guesses {Math.round(100 * data.explained)} % of their differences
        {data.explained < 0.3 ? ': too little to trust what stands above.' : '.'}</p>
      <details><summary>How this is found, and what it cannot tell</summary><p class="faint">{data.method}</p></details>
    </>}
  </Card>
}

/** Scale is a parameter as an axis: names stand at whole numbers. */
interface Scale { low: number; high: number; log: boolean; names?: string[]; at: (row: number) => number | null }

function scaleOf(d: Dimension, rows: number[]): Scale {
  if (!d.numeric) {
    const place = new Map(d.categories.map((name, i) => [name, i]))
    return { low: -0.5, high: d.categories.length - 0.5, log: false, names: d.categories, at: row => d.values[row] === null ? null : place.get(textOf(d.values[row])) ?? null }
  }
  const at = (row: number) => d.values[row] as number | null
  const present = rows.map(at).filter(v => v !== null)
  return { low: present.reduce((a, b) => Math.min(a, b), Infinity), high: present.reduce((a, b) => Math.max(a, b), -Infinity), log: d.log, at }
}

function axisOf(d: Dimension, s: Scale, full = false): Option {
  const label = { color: colour('faint'), hideOverlap: true, fontSize: 11, formatter: (v: number) => s.names ? s.names[v] ?? '' : number(v) }
  return axis({ type: s.log ? 'log' : 'value', name: short(d.name), nameLocation: 'middle', nameGap: 30, scale: true, splitLine: { show: false }, axisLabel: label,
    ...(s.names ? { min: s.low, max: s.high, axisLabel: { ...label, customValues: s.names.map((_, i) => i) } } : full ? { min: s.low, max: s.high } : {}) })
}

function Landscape({ e, results, metric, across, against, onAcross, onAgainst, dark }: {
  e: Experiment; results: Results; metric: string; across: string; against: string; onAcross: (name: string) => void; onAgainst: (name: string) => void; dark: boolean
}) {
  const { dimensions, rows } = useMemo(() => measured(e, results, 1), [results])
  const x = dimensions.find(d => d.name === across) ?? dimensions[0]
  const y = dimensions.find(d => d.name === against && d !== x)
  const option = useMemo(() => !x ? {} : y ? contour(e, results, rows, x, y) : slice(results, rows, x, metric), [results, x?.name, y?.name, dark])
  if (!x || !rows.length) return <Card title="Results across parameters"><p class="faint">They will stand here once trials have results and parameters that differ.</p></Card>
  const others = dimensions.filter(d => d !== x).map((d): [string, string] => [d.name, short(d.name)])
  return <Card title="Results across parameters" more={<>
    <Select label="Across" value={x.name} onChange={onAcross} of={dimensions.map(d => [d.name, short(d.name)])} />
    <Select label="against" value={y?.name ?? ''} onChange={name => { onAcross(x.name); onAgainst(name) }} of={[['', nameOf(metric)], ...others]} />
  </>}>
    <Chart key={y ? 'contour' : 'slice'} option={option} height={330} dark={dark} onClick={opens(e)}
      label={y ? `The ${nameOf(metric)} of ${rows.length} trials by ${short(x.name)} and ${short(y.name)}` : `The ${nameOf(metric)} of ${rows.length} trials by ${short(x.name)}`} />
    <p class="faint">{y ? 'Between trials the colour is that of their neighbours, the nearer the more; far from all of them it is a guess.' : 'The later a trial, the stronger its colour.'}</p>
  </Card>
}

const opens = (e: Experiment) => (what: Clicked) => {
  const d = what.data as { sequence?: number } | undefined
  if (d?.sequence !== undefined) go(`/e/${e.id}/t/${d.sequence}`)
}

const shades = () => ['c0', 'c1', 'c2', 'c3', 'c4'].map(colour)

function slice(r: Results, rows: number[], x: Dimension, metric: string): Option {
  const s = scaleOf(x, rows)
  const data = rows.filter(i => s.at(i) !== null).map(i => ({ value: [s.at(i), r.metric[i], r.sequence[i]], sequence: r.sequence[i] }))
  return {
    grid: { left: 8, right: 16, top: 18, bottom: 40, containLabel: true },
    xAxis: [axisOf(x, s)], yAxis: [axis({ type: 'value', scale: true, name: nameOf(metric) })],
    visualMap: { show: false, type: 'continuous', dimension: 2, min: 0, max: Math.max(...r.sequence, 1), inRange: { color: shades() } },
    tooltip: tooltip((what: { data: { value: number[]; sequence: number } }) =>
      tip([`trial ${what.data.sequence}`, `${nameOf(metric)} ${number(what.data.value[1])}`, `${short(x.name)} ${textOf(x.values[r.sequence.indexOf(what.data.sequence)])}`])),
    series: [{ id: 'slice', type: 'scatter', data, symbolSize: rows.length > 1000 ? 4 : 8, itemStyle: { opacity: 0.8 }, cursor: 'pointer' }],
  }
}

const fine = 36 // cells along an axis of numbers
const known = 600 // trials that a colour between them is guessed from

function contour(e: Experiment, r: Results, rows: number[], x: Dimension, y: Dimension): Option {
  const [sx, sy] = [scaleOf(x, rows), scaleOf(y, rows)]
  const both = rows.filter(i => sx.at(i) !== null && sy.at(i) !== null)
  const values = both.map(i => r.metric[i]!).sort((a, b) => a - b)
  const [low, high] = [values[Math.floor(values.length * (e.minimize ? 0 : 0.1))] ?? 0, values[Math.ceil((values.length - 1) * (e.minimize ? 0.9 : 1))] ?? 1]
  const cells = spread(r, both.slice(-known), sx, sy)
  return {
    grid: { left: 26, right: 16, top: 18, bottom: 40, containLabel: true },
    xAxis: [axisOf(x, sx, true)], yAxis: [{ ...axisOf(y, sy, true), nameGap: 48 }],
    visualMap: { show: false, type: 'continuous', dimension: 2, seriesIndex: [0, 1], min: low, max: high === low ? low + 1 : high,
      inRange: { color: e.minimize ? shades().reverse() : shades() } },
    tooltip: tooltip((what: { data: { value: number[]; sequence?: number } }) => what.data.sequence === undefined ? tip([`about ${number(what.data.value[2])}`])
      : tip([`trial ${what.data.sequence}`, number(what.data.value[2])])),
    series: [
      { id: 'between', type: 'custom', silent: true, data: cells, encode: { x: [0, 3], y: [1, 4] }, renderItem: (_: unknown, api: {
        value: (i: number) => number; coord: (at: [number, number]) => [number, number]; visual: (name: string) => string }) => {
        const [left, bottom] = api.coord([api.value(0), api.value(1)]), [right, top] = api.coord([api.value(3), api.value(4)])
        return { type: 'rect', shape: { x: left, y: top, width: right - left + 0.6, height: bottom - top + 0.6 }, style: { fill: api.visual('color') } }
      } },
      { id: 'trials', type: 'scatter', data: both.map(i => ({ value: [sx.at(i), sy.at(i), r.metric[i]], sequence: r.sequence[i] })), symbolSize: both.length > 500 ? 4 : 7,
        itemStyle: { borderColor: colour('card'), borderWidth: 1.2 }, cursor: 'pointer', z: 3 },
    ],
  }
}

/** spread gives each cell of the plane the mean of trials, by the inverse of their distance squared. */
function spread(r: Results, rows: number[], sx: Scale, sy: Scale): number[][] {
  const level = (s: Scale, v: number) => s.log ? Math.log(v) : v
  const part = (s: Scale, v: number) => (level(s, v) - level(s, s.low)) / ((level(s, s.high) - level(s, s.low)) || 1)
  const edge = (s: Scale, p: number) => { const u = level(s, s.low) + p * (level(s, s.high) - level(s, s.low)); return s.log ? Math.exp(u) : u }
  const points = rows.map(i => [part(sx, sx.at(i)!), part(sy, sy.at(i)!), r.metric[i]!])
  const [nx, ny] = [sx.names?.length ?? fine, sy.names?.length ?? fine]
  const cells: number[][] = []
  for (let a = 0; a < nx; a++) for (let b = 0; b < ny; b++) {
    const [cx, cy] = [(a + 0.5) / nx, (b + 0.5) / ny]
    let sum = 0, weight = 0
    for (const [px, py, v] of points) {
      const w = 1 / ((px - cx) ** 2 + (py - cy) ** 2 + 1e-4) ** 1.5
      sum += w * v
      weight += w
    }
    cells.push([edge(sx, a / nx), edge(sy, b / ny), sum / weight, edge(sx, (a + 1) / nx), edge(sy, (b + 1) / ny)])
  }
  return cells
}

const valuesOf = (r: Results, metric: string) => metric === theMetric ? r.metric : r.metrics[metric] ?? []

type Wish = 'less' | 'more'

/** front are the trials that no other trial beats in both. */
function front(points: { x: number; y: number; sequence: number }[], wx: Wish, wy: Wish) {
  const sign = (w: Wish) => w === 'less' ? 1 : -1
  const sorted = [...points].sort((a, b) => sign(wx) * (a.x - b.x) || sign(wy) * (a.y - b.y))
  let best = Infinity
  return sorted.filter(p => { const y = sign(wy) * p.y; const on = y < best; best = Math.min(best, y); return on })
}

function TradeOff({ e, results, keys, dark }: { e: Experiment; results: Results; keys: string[]; dark: boolean }) {
  const [x, setX] = useState(keys[1])
  const [y, setY] = useState(theMetric)
  const [wx, setWX] = useState<Wish>('less')
  const [wy, setWY] = useState<Wish>(e.minimize ? 'less' : 'more')
  const points = useMemo(() => results.sequence.flatMap((sequence, i) => {
    const [vx, vy] = [valuesOf(results, x)[i], valuesOf(results, y)[i]]
    return typeof vx === 'number' && typeof vy === 'number' ? [{ x: vx, y: vy, sequence }] : []
  }), [results, x, y])
  const best = useMemo(() => front(points, wx, wy), [points, wx, wy])
  const option = useMemo((): Option => ({
    grid: { left: 8, right: 16, top: 24, bottom: 40, containLabel: true },
    xAxis: [axis({ type: 'value', scale: true, name: nameOf(x), nameLocation: 'middle', nameGap: 28 })], yAxis: [axis({ type: 'value', scale: true, name: nameOf(y) })],
    tooltip: tooltip((what: { data: { value: number[]; sequence: number } }) => tip([`trial ${what.data.sequence}`, `${nameOf(x)} ${number(what.data.value[0])}`, `${nameOf(y)} ${number(what.data.value[1])}`])),
    series: [
      { id: 'all', type: 'scatter', data: points.map(p => ({ value: [p.x, p.y], sequence: p.sequence })), symbolSize: points.length > 1000 ? 3 : 6, itemStyle: { color: colour('faint'), opacity: 0.5 }, cursor: 'pointer' },
      { id: 'front', type: 'line', step: 'end', data: best.map(p => ({ value: [p.x, p.y], sequence: p.sequence })), symbol: 'circle', symbolSize: 9, lineStyle: { color: colour('accent'), width: 2 }, itemStyle: { color: colour('accent') }, z: 3, cursor: 'pointer' },
    ],
  }), [points, best, dark])
  const wishes: [string, string][] = [['less', 'less is better'], ['more', 'more is better']]
  return <Card title="What is given up for what" wide more={<>
    <Select label="Across" value={x} onChange={setX} of={keys.filter(k => k !== y).map(k => [k, nameOf(k)])} />
    <Select label="of which" value={wx} onChange={w => setWX(w as Wish)} of={wishes} />
    <Select label="against" value={y} onChange={setY} of={keys.filter(k => k !== x).map(k => [k, nameOf(k)])} />
    <Select label="and of that" value={wy} onChange={w => setWY(w as Wish)} of={wishes} />
  </>}>
    <Chart option={option} height={340} dark={dark} onClick={opens(e)} label={`${points.length} trials by ${nameOf(x)} and ${nameOf(y)}; ${best.length} are on the Pareto front`} />
    <p class="faint">On the Pareto front, where no other trial is better in both: {best.slice(0, 40).map(p => <><Go to={`/e/${e.id}/t/${p.sequence}`}>trial {p.sequence}</Go> ({number(p.x)}, {number(p.y)}) </>)}</p>
  </Card>
}

/** Course is one number of all results, by trial. */
function Course({ e, results, metric, dark }: { e: Experiment; results: Results; metric: string; dark: boolean }) {
  const option = useMemo((): Option => ({
    grid: { left: 8, right: 14, top: 18, bottom: 34, containLabel: true },
    xAxis: [axis({ type: 'value', scale: true, minInterval: 1, splitLine: { show: false } })], yAxis: [axis({ type: 'value', scale: true })],
    dataZoom: zooms(),
    tooltip: tooltip((what: { data: { value: number[]; sequence: number } }) => tip([`trial ${what.data.sequence}`, `${metric} ${number(what.data.value[1])}`])),
    series: [{ id: 'values', type: 'scatter', symbolSize: results.sequence.length > 2000 ? 3 : 6, itemStyle: { color: colour('accent'), opacity: 0.6 }, cursor: 'pointer',
      data: results.sequence.flatMap((sequence, i) => { const v = results.metrics[metric]?.[i]; return typeof v === 'number' ? [{ value: [sequence, v], sequence }] : [] }) }],
  }), [results, metric, dark])
  return <Card title={metric}><Chart option={option} height={220} dark={dark} onClick={opens(e)} label={`${metric} of each trial`} /></Card>
}
