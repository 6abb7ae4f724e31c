// Renders only the rows in view. Without wrapping all rows have the same height, so the visible range is arithmetic;
// with wrapping they are measured (wrapped-rows.tsx). Follow keeps the end in view until the reader scrolls up; only
// the reader (scrolling to the end, the button, the key) turns it on again.
import {
  type ReactNode,
  type RefObject,
  useEffect,
  useImperativeHandle,
  useLayoutEffect,
  useRef,
  useState,
} from 'react'
import css from './log.module.css'

export const ROW_PX = 20
/** Closer than this counts as the end. */
const END_PX = 40
/** Extra rows above and below the view; scrolling by this many rerenders. */
export const SPARE = 10
const STEP = 5
/** Browsers limit elements to about 33 million pixels. */
export const MOST_ROWS = 1_500_000

export interface RowsHandle {
  /** Scrolls a row into the upper third. */
  show(index: number): void
  /** The first row that is wholly in view. */
  first(): number
  toEnd(): void
  toStart(): void
  focus(): void
}

export interface RowsProps {
  count: number
  /** The row at the top when these rows replace others; undefined keeps the start. */
  begin: number | undefined
  isFollowing: boolean
  setFollowing(is: boolean): void
  /** The rendered range, and the first visible row. */
  onView(from: number, to: number, top: number): void
  /** `top` is the row's position; undefined places it below the previous row. */
  row(index: number, top?: number): ReactNode
  label: string
  handle: RefObject<RowsHandle | null>
}

const isNearEnd = (e: HTMLElement): boolean =>
  e.scrollHeight - e.scrollTop - e.clientHeight <= END_PX

/** Whether the reader is at the end; only scroll events update it. */
export function useFollow(
  { isFollowing, setFollowing }: RowsProps,
  box: RefObject<HTMLElement | null>,
) {
  const lastTop = useRef(0)
  return () => {
    const e = box.current
    if (!e) return
    const isUp = e.scrollTop < lastTop.current
    lastTop.current = e.scrollTop
    if (isNearEnd(e)) {
      if (!isFollowing && !isUp) setFollowing(true)
    } else if (isFollowing && isUp) setFollowing(false)
  }
}

export function FixedRows(props: RowsProps) {
  const { count, isFollowing, onView } = props
  const box = useRef<HTMLDivElement>(null)
  const [top, setTop] = useState(0)
  const [rows, setRows] = useState(40)
  const reported = useFollow(props, box)
  const last = Math.max(0, count - rows)
  const first = isFollowing ? last : Math.min(top, last + STEP)
  const from = Math.max(0, first - SPARE)
  const to = Math.min(count, first + rows + STEP + SPARE)

  useLayoutEffect(() => {
    const e = box.current
    if (!e) return
    const measure = () => setRows(Math.max(1, Math.ceil(e.clientHeight / ROW_PX)))
    measure()
    const observer = new ResizeObserver(measure)
    observer.observe(e)
    return () => observer.disconnect()
  }, [])
  // biome-ignore lint/correctness/useExhaustiveDependencies: each new line moves the end
  useLayoutEffect(() => {
    if (isFollowing && box.current) box.current.scrollTop = box.current.scrollHeight
  }, [isFollowing, count, rows])
  // biome-ignore lint/correctness/useExhaustiveDependencies: only when these rows appear
  useLayoutEffect(() => {
    const e = box.current
    if (!e || props.begin === undefined || isFollowing) return
    e.scrollTop = props.begin * ROW_PX
    setTop(stepped(e.scrollTop))
  }, [])
  useEffect(() => onView(from, to, first), [from, to, first, onView])
  useImperativeHandle(props.handle, () => ({
    show(index) {
      const e = box.current
      if (!e) return
      e.scrollTop = Math.max(0, index * ROW_PX - Math.floor(e.clientHeight / 3))
      setTop(stepped(e.scrollTop))
    },
    first: () => Math.ceil(((box.current?.scrollTop ?? 0) - 1) / ROW_PX),
    toEnd() {
      if (box.current) box.current.scrollTop = box.current.scrollHeight
    },
    toStart() {
      if (box.current) box.current.scrollTop = 0
    },
    focus: () => box.current?.focus({ preventScroll: true }),
  }))
  const shown: ReactNode[] = []
  for (let i = from; i < to; i++) shown.push(props.row(i, i * ROW_PX))
  return (
    <section
      ref={box}
      className={css.box}
      aria-label={props.label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard has to reach it
      tabIndex={0}
      onScroll={(event) => {
        reported()
        setTop(stepped(event.currentTarget.scrollTop))
      }}
    >
      {/* biome-ignore lint/a11y/useSemanticElements: of many thousands a few are in the document */}
      <div role="list" className={css.all} style={{ height: count * ROW_PX }}>
        {shown}
      </div>
    </section>
  )
}

const stepped = (scrollTop: number): number => Math.floor(scrollTop / ROW_PX / STEP) * STEP
