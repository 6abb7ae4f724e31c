// The icons, as paths in one place. They are decoration: the caller adds a word or labels the button.
const PATHS = {
  dot: <circle cx="8" cy="8" r="4.5" fill="currentColor" />,
  hollow: <circle cx="8" cy="8" r="4" />,
  half: (
    <>
      <circle cx="8" cy="8" r="5" />
      <path d="M8 3a5 5 0 0 1 0 10z" fill="currentColor" stroke="none" />
    </>
  ),
  check: <path d="m3.5 8.5 3 3 6-7" />,
  cross: <path d="m4 4 8 8m0-8-8 8" />,
  dash: <path d="M3.5 8h9" />,
  clock: (
    <>
      <circle cx="8" cy="8" r="5.5" />
      <path d="M8 5v3.200l2 1.3" />
    </>
  ),
  warning: (
    <>
      <path d="M8 2.5 14.5 13.500h-13z" />
      <path d="M8 6.500v3.200m0 1.800v.2" />
    </>
  ),
  info: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M8 7.300v3.700M8 5v.2" />
    </>
  ),
  lock: (
    <>
      <rect x="3.5" y="7" width="9" height="6.5" rx="1.5" />
      <path d="M5.5 7V5a2.5 2.5 0 0 1 5 0v2" />
    </>
  ),
  star: <path d="m8 2 1.8 3.8 4.2.5-3.1 2.9.8 4.100L8 11.300l-3.7 2 .8-4.100L2 6.300l4.2-.5z" />,
  more: <path d="M3.5 8h.01M8 8h.01M12.5 8h.01" strokeWidth="2.5" />,
  down: <path d="m4 6.5 4 4 4-4" />,
  right: <path d="m6.5 4 4 4-4 4" />,
  out: <path d="M6 4h6v6m0-6L4.5 11.5" />,
  plus: <path d="M8 3v10M3 8h10" />,
  search: (
    <>
      <circle cx="7" cy="7" r="4.5" />
      <path d="m10.5 10.5 3 3" />
    </>
  ),
  copy: (
    <>
      <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
      <path d="M10.5 3.500v-.5a1 1 0 0 0-1-1H3.500a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1H4" />
    </>
  ),
  eye: (
    <>
      <path d="M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8z" />
      <circle cx="8" cy="8" r="1.8" />
    </>
  ),
  download: <path d="M8 2.500v8m-3.5-3L8 11l3.5-3.500M3 13.500h10" />,
  branch: (
    <>
      <circle cx="4.5" cy="3.5" r="1.5" />
      <circle cx="4.5" cy="12.5" r="1.5" />
      <circle cx="11.5" cy="5.5" r="1.5" />
      <path d="M4.5 5v6M11.5 7c0 2.5-3 2.5-6 3.5" />
    </>
  ),
  server: (
    <>
      <rect x="2.5" y="3" width="11" height="4" rx="1" />
      <rect x="2.5" y="9" width="11" height="4" rx="1" />
      <path d="M5 5h.01M5 11h.01" strokeWidth="2" />
    </>
  ),
  play: <path d="M5 3.500v9l7-4.500z" />,
  anchor: (
    <>
      <circle cx="8" cy="3.5" r="1.5" />
      <path d="M8 5v8.500M5 7.500h6M2.5 9.500c0 2.3 2.5 4 5.5 4s5.5-1.7 5.5-4" />
    </>
  ),
  reload: <path d="M13 8a5 5 0 1 1-1.5-3.600M13 2.500v3h-3" />,
  grid: (
    <>
      <rect x="2.5" y="2.5" width="4.5" height="4.5" rx="1" />
      <rect x="9" y="2.5" width="4.5" height="4.5" rx="1" />
      <rect x="2.5" y="9" width="4.5" height="4.5" rx="1" />
      <rect x="9" y="9" width="4.5" height="4.5" rx="1" />
    </>
  ),
  people: (
    <>
      <circle cx="6" cy="5.5" r="2.5" />
      <path d="M1.500 13c.3-2.6 2-4 4.500-4s4.200 1.400 4.500 4M10.500 3.200a2.500 2.500 0 0 1 0 4.600M12 9.300c1.500.5 2.300 1.800 2.500 3.700" />
    </>
  ),
} as const

export type IconName = keyof typeof PATHS

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      viewBox="0 0 16 16"
      width={size}
      height={size}
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      {PATHS[name]}
    </svg>
  )
}
