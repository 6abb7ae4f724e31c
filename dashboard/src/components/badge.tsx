// A word in a frame: a kind, a count, a short mark. States of things use <Status>.
import type { ReactNode } from 'react'
import css from './badge.module.css'

type BadgeTone = 'none' | 'ok' | 'warn' | 'bad' | 'accent'

export const Badge = ({ tone = 'none', children }: { tone?: BadgeTone; children: ReactNode }) => (
  <span className={`${css.badge} ${css[tone]}`}>{children}</span>
)
