// A chart, as far as all of them are alike.
import { BarChart, CustomChart, LineChart, LinesChart, ParallelChart, ScatterChart } from 'echarts/charts'
import { BrushComponent, DataZoomComponent, GridComponent, MarkLineComponent, ParallelComponent, TooltipComponent, VisualMapComponent } from 'echarts/components'
import * as echarts from 'echarts/core'
import { CanvasRenderer } from 'echarts/renderers'
import { useEffect, useRef } from 'preact/hooks'
import { useLatest } from './parts'
import { colour } from './theme'

echarts.use([BarChart, CustomChart, LineChart, LinesChart, ParallelChart, ScatterChart, BrushComponent, DataZoomComponent, GridComponent,
  MarkLineComponent, ParallelComponent, TooltipComponent, VisualMapComponent, CanvasRenderer])

export type Option = Record<string, unknown>

/** Clicked is what was clicked on a chart: the series and the place of the point in it. */
export interface Clicked { seriesId?: string; seriesName?: string; dataIndex: number; data: unknown }

/** Chart draws an option, and again when it is another; zoom and brushes stay. */
export function Chart({ option, height, label, dark, onClick, onReady }: {
  option: Option; height: number; label: string; dark: boolean
  onClick?: (what: Clicked) => void; onReady?: (chart: echarts.ECharts) => void
}) {
  const place = useRef<HTMLDivElement>(null)
  const chart = useRef<echarts.ECharts | undefined>(undefined)
  const click = useLatest(onClick)
  useEffect(() => {
    const made = echarts.init(place.current!, undefined, { renderer: 'canvas' })
    chart.current = made
    made.on('click', what => click.current?.(what as unknown as Clicked))
    onReady?.(made)
    const watch = new ResizeObserver(() => made.resize())
    watch.observe(place.current!)
    return () => { watch.disconnect(); made.dispose(); chart.current = undefined }
  }, [])
  useEffect(() => {
    chart.current?.setOption({ animation: false, textStyle: { fontFamily: 'inherit' }, ...option }, { replaceMerge: ['series', 'xAxis', 'yAxis', 'parallelAxis'] })
  }, [option, dark])
  return <div class="chart" ref={place} role="img" aria-label={label} style={{ height: `${height}px` }} />
}

/** axis is how every axis looks. */
export function axis(more: Option = {}): Option {
  return {
    axisLine: { onZero: false, lineStyle: { color: colour('line') } }, axisTick: { show: false },
    axisLabel: { color: colour('faint'), hideOverlap: true, fontSize: 11 },
    splitLine: { lineStyle: { color: colour('line'), opacity: 0.6 } },
    nameTextStyle: { color: colour('faint'), fontSize: 11 }, ...more,
  }
}

/** zooms are a wheel with shift held, a drag, and a handle below. */
export function zooms(): Option[] {
  const look = { borderColor: colour('line'), fillerColor: colour('glow'), handleStyle: { color: colour('accent') }, textStyle: { color: colour('faint') },
    dataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } }, selectedDataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } },
    moveHandleSize: 0, brushSelect: false }
  return [{ type: 'inside', zoomOnMouseWheel: 'shift', moveOnMouseMove: true, filterMode: 'none' }, { type: 'slider', height: 14, bottom: 4, filterMode: 'none', ...look }]
}

/** tip is what a tooltip shows: lines of text, whatever is in them. */
export function tip(lines: (string | undefined)[]): HTMLElement {
  const box = document.createElement('div')
  for (const line of lines) {
    if (line === undefined) continue
    const row = document.createElement('div')
    row.textContent = line
    box.append(row)
  }
  return box
}

/** tooltip is how every tooltip looks. */
export function tooltip(formatter: (what: never) => HTMLElement | string, trigger = 'item'): Option {
  return { trigger, formatter, confine: true, backgroundColor: colour('card'), borderColor: colour('line'), borderWidth: 1, padding: [6, 10],
    textStyle: { color: colour('text'), fontSize: 12 } }
}
