// Which parameters led to what: a line for every trial, an axis for every parameter.
import type { ECharts } from 'echarts/core'
import { useMemo, useState } from 'preact/hooks'
import type { Experiment, Json, Results } from './api'
import { Chart, type Option } from './chart'
import { number, short } from './format'
import { Card, Choice, useKept, useLatest } from './parts'
import { Go } from './router'
import { colour } from './theme'

const most = 3000 // lines: more are a carpet

export interface Dimension { name: string; values: Json[]; numeric: boolean; log: boolean; categories: string[] }

export function Parallel({ e, results, dark }: { e: Experiment; results: Results; dark: boolean }) {
  const [share, setShare] = useKept<'1' | '0.5' | '0.2' | '0.05'>('parallel-share', '1')
  const [chosen, setChosen] = useState<number[] | null>(null)
  const { dimensions, rows } = useMemo(() => measured(e, results, Number(share)), [results, share])
  const option = useMemo(() => draw(e, dimensions, rows, results), [dimensions, rows, dark])
  const shown = useLatest(rows)
  const ready = (made: ECharts) => {
    made.on('axisareaselected', () => {
      const series = (made as unknown as { getModel(): { getSeriesByIndex(i: number): { getRawIndicesByActiveState(s: string): number[] } } }).getModel().getSeriesByIndex(0)
      const active = series.getRawIndicesByActiveState('active')
      setChosen(active.length && active.length < shown.current.length ? active.map(i => shown.current[i]) : null)
    })
  }
  if (!rows.length || !dimensions.length) return <Card title="Parameters and results" wide><p class="faint">Lines will stand here once trials have results and parameters that differ.</p></Card>
  return <Card title="Parameters and results" wide more={
    <Choice label="Which trials" value={share} onChange={setShare} of={[['1', 'all'], ['0.5', 'best half'], ['0.2', 'best 20 %'], ['0.05', 'best 5 %']]} />}>
    <div class="scroll-x"><div style={{ minWidth: `${Math.max(360, 110 * (dimensions.length + 1))}px` }}>
      <Chart option={option} height={340} dark={dark} onReady={ready}
        label={`${rows.length} trials by ${dimensions.map(d => short(d.name)).join(', ')} and metric. Drag along an axis to choose some.`} />
    </div></div>
    <p class="faint">{chosen ? <Chosen e={e} results={results} rows={chosen} /> : <>Drag along an axis to choose trials; click it to let go.{rows.length === most && ` The best ${most} are drawn.`}</>}</p>
  </Card>
}

function Chosen({ e, results, rows }: { e: Experiment; results: Results; rows: number[] }) {
  const best = [...rows].sort((a, b) => (results.metric[a]! - results.metric[b]!) * (e.minimize ? 1 : -1)).slice(0, 8)
  return <>{rows.length} chosen; the best: {best.map(i => <><Go to={`/e/${e.id}/t/${results.sequence[i]}`}>trial {results.sequence[i]}</Go> ({number(results.metric[i])}) </>)}</>
}

/** textOf is a value as it stands at an axis. */
export const textOf = (v: Json) => typeof v === 'string' ? v : JSON.stringify(v)

/** measured are the parameters that differ and the trials with results, the best last, so
 * that they are drawn over the others. */
export function measured(e: Experiment, r: Results, share: number): { dimensions: Dimension[]; rows: number[] } {
  const all = r.sequence.map((_, i) => i).filter(i => r.metric[i] !== null && Number.isFinite(r.metric[i]))
  all.sort((a, b) => (r.metric[b]! - r.metric[a]!) * (e.minimize ? 1 : -1))
  const rows = all.slice(-Math.min(most, Math.ceil(all.length * share)))
  const space = (e.searchSpace ?? {}) as Record<string, { _type?: string } | undefined>
  const dimensions = Object.entries(r.parameters).flatMap(([name, values]): Dimension[] => {
    const present = all.map(i => values[i]).filter(v => v !== null)
    const distinct = new Set(present.map(v => JSON.stringify(v)))
    if (distinct.size < 2) return []
    const numbers = present.every(v => typeof v === 'number')
    const few = distinct.size <= 8 && present.every(v => Number.isInteger(v))
    const numeric = numbers && !few && space[name]?._type !== 'choice'
    const log = numeric && (space[name]?._type ?? '').includes('log') && present.every(v => (v as number) > 0)
    const categories = [...distinct].map(text => textOf(JSON.parse(text) as Json)).sort((a, b) => Number(a) - Number(b) || a.localeCompare(b))
    return [{ name, values, numeric, log, categories }]
  })
  const place = (d: Dimension) => { const at = Object.keys(space).indexOf(d.name.split('/')[0]); return at < 0 ? 99 : at }
  return { dimensions: dimensions.sort((a, b) => place(a) - place(b)).slice(0, 24), rows }
}

function draw(e: Experiment, dimensions: Dimension[], rows: number[], r: Results): Option {
  const values = rows.map(i => r.metric[i]!)
  const sorted = [...values].sort((a, b) => a - b)
  // A few that are far off would leave one colour to all others.
  const [low, high] = [sorted[Math.floor(sorted.length * (e.minimize ? 0 : 0.1))] ?? 0, sorted[Math.ceil((sorted.length - 1) * (e.minimize ? 0.9 : 1))] ?? 1]
  const data = rows.map(i => [...dimensions.map(d => {
    const v = d.values[i]
    if (v === null) return '-'
    return d.numeric ? v as number : textOf(v)
  }), r.metric[i]!])
  const text = { color: colour('text'), fontSize: 11, textBorderColor: colour('card'), textBorderWidth: 3 }
  const scale = ['--c0', '--c1', '--c2', '--c3', '--c4'].map(n => colour(n.slice(2)))
  return {
    parallel: { left: 46, right: 64, top: 34, bottom: 18, axisExpandable: false, parallelAxisDefault: {
      nameLocation: 'end', nameGap: 14, nameTextStyle: { color: colour('text'), fontSize: 12 }, axisLabel: text,
      axisLine: { lineStyle: { color: colour('faint') } }, axisTick: { show: false }, splitLine: { show: false },
      areaSelectStyle: { width: 18, borderColor: colour('accent'), color: colour('accent'), opacity: 0.25 } } },
    parallelAxis: [...dimensions.map((d, dim) => ({ dim, name: short(d.name), scale: true,
      ...(d.numeric ? { type: d.log ? 'log' : 'value', axisLabel: { ...text, formatter: (v: number) => number(v) } } : { type: 'category', data: d.categories }) })),
    { dim: dimensions.length, name: 'metric', type: 'value', scale: true, inverse: e.minimize, nameTextStyle: { color: colour('accent'), fontWeight: 'bold' }, axisLabel: { ...text, formatter: (v: number) => number(v) } }],
    visualMap: { show: false, type: 'continuous', dimension: dimensions.length, min: low, max: high === low ? low + 1 : high, inRange: { color: e.minimize ? [...scale].reverse() : scale } },
    series: [{ type: 'parallel', data, lineStyle: { width: rows.length > 500 ? 1 : 1.6, opacity: rows.length > 1000 ? 0.25 : rows.length > 200 ? 0.45 : 0.75 }, inactiveOpacity: 0.03, activeOpacity: 0.9, progressive: 500, smooth: 0.08 }],
  }
}
