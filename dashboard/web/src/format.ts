// Numbers, times and parameters as people read them.
import type { Json } from './api'

/** number shows a metric in few letters. */
export function number(value: number | null | undefined): string {
  if (value === null || value === undefined) return '–'
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return String(value)
  const size = Math.abs(value)
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return Number(value.toPrecision(4)).toExponential().replace('e+', 'e')
  return String(Number(value.toPrecision(6)))
}

/** span shows seconds as the command line does. */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds))
  const [d, h, m, s] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60, whole % 60]
  if (d) return `${d}d ${h}h`
  if (h) return `${h}h ${m}m`
  if (m) return `${m}m ${s}s`
  return `${s}s`
}

export function ago(time: string | null, now: number): string {
  return time ? span((now - Date.parse(time)) / 1000) + ' ago' : '–'
}

export function took(start: string | null, end: string | null, now: number): string {
  return start ? span(((end ? Date.parse(end) : now) - Date.parse(start)) / 1000) : '–'
}

export function clock(millis: number): string {
  return new Date(millis).toLocaleString(undefined, { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit' })
}

/** flatten takes nested objects apart, as "outer/inner". */
export function flatten(value: Json, name = ''): [string, Json][] {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return [[name, value]]
  return Object.entries(value).flatMap(([inner, v]) => flatten(v, name ? `${name}/${inner}` : inner))
}

export function cell(value: Json | undefined): string {
  if (value === undefined || value === null) return '–'
  if (typeof value === 'number') return number(value)
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** short is a parameter's name as people wrote it. */
export const short = (name: string) => name.replace(/\/_name$/, '')
