// The frame around every page: organization, navigation, search, live indicator, account. It stays when a page fails.
import { Link, Outlet, useNavigate } from '@tanstack/react-router'
import { Suspense, useEffect, useState } from 'react'
import { Avatar } from '../components/avatar.tsx'
import { GuardsForms } from '../components/forms/guards.ts'
import { Icon, type IconName } from '../components/icon.tsx'
import { onDemand } from '../components/loading/on-demand.tsx'
import { Menu, MenuButton, MenuLine, MenuLink, MenuNote } from '../components/menu.tsx'
import { focusFilter, useShortcuts, walkRows } from '../components/shortcuts.ts'
import { Skeleton } from '../components/states.tsx'
import { Toasts } from '../components/toast.tsx'
import { Tooltips } from '../components/tooltip.tsx'
import { capital } from '../format.ts'
import { useLive } from '../live/use-live.ts'
import { chooseOrganization, type Me, useOrganization } from '../organization.ts'
import { sessionEnded } from '../session.ts'
import { useStore } from '../stores.ts'
import { chooseTheme, THEMES, theme } from '../theme.ts'
import { LiveBadge, LiveStrip } from './indicator.tsx'
import css from './shell.module.css'
import { signOut } from './sign-out.ts'

const Palette = onDemand(() => import('./palette.tsx'))
const Help = onDemand(() => import('./help.tsx'))
const SessionEnded = onDemand(() => import('./session-ended.tsx'))

const isMac = navigator.platform.startsWith('Mac')

export function Shell({ me }: { me: Me }) {
  const organization = useOrganization()
  useLive(organization?.id)
  const navigate = useNavigate()
  const isEnded = useStore(sessionEnded)
  const [open, setOpen] = useState<'palette' | 'help'>()
  useShortcuts({
    '?': () => setOpen('help'),
    'g p': () => void navigate({ to: '/' }),
    'g s': () => void navigate({ to: '/servers' }),
    '/': focusFilter,
    j: () => walkRows(1),
    k: () => walkRows(-1),
  })
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'k' || !(event.metaKey || event.ctrlKey)) return
      event.preventDefault()
      setOpen((now) => (now === 'palette' ? undefined : 'palette'))
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
  return (
    <>
      <a href="#main" className={css.skip}>
        Skip to content
      </a>
      <header className={css.header}>
        <Organizations me={me} />
        <nav aria-label="Main" className={css.nav}>
          <Place to="/" icon="grid" isExact>
            Projects
          </Place>
          <Place to="/servers" icon="server">
            Servers
          </Place>
          <Place to="/org/members" icon="people">
            Members
          </Place>
        </nav>
        <div className={css.tools}>
          <button type="button" className={css.search} onClick={() => setOpen('palette')}>
            <Icon name="search" />
            <span className={css.word}>Search</span>
            <kbd className={css.wide}>{isMac ? '⌘K' : 'Ctrl K'}</kbd>
          </button>
          <LiveBadge />
          <Account me={me} onHelp={() => setOpen('help')} />
        </div>
      </header>
      <LiveStrip />
      <main id="main">
        <Suspense fallback={<Skeleton />}>
          <GuardsForms value={true}>
            <Outlet />
          </GuardsForms>
        </Suspense>
      </main>
      <Toasts />
      <Tooltips />
      {open === 'palette' && <Palette onClose={() => setOpen(undefined)} />}
      {open === 'help' && <Help onClose={() => setOpen(undefined)} />}
      {isEnded && <SessionEnded email={me.email} />}
    </>
  )
}

interface PlaceProps {
  to: string
  icon: IconName
  isExact?: boolean
  children: string
}

/** The icon is shown where the navigation is at the bottom of a phone. */
function Place({ to, icon, isExact = false, children }: PlaceProps) {
  return (
    <Link to={to} activeOptions={{ exact: isExact }}>
      <Icon name={icon} size={18} />
      {children}
    </Link>
  )
}

function Organizations({ me }: { me: Me }) {
  const current = useOrganization()
  const navigate = useNavigate()
  const go = (id: number) => {
    chooseOrganization(id)
    void navigate({ to: '/' })
  }
  return (
    <Menu
      label={`Organization: ${current?.name ?? 'none'}`}
      face={
        <>
          <span className={css.mark}>
            <Icon name="anchor" />
          </span>
          <span className={css.organization}>{current?.name ?? 'Berth'}</span>
          <Icon name="down" size={12} />
        </>
      }
    >
      <MenuNote>Organization</MenuNote>
      {me.organizations.map((o) => (
        <MenuButton key={o.id} onClick={() => go(o.id)}>
          <Tick isOn={o.id === current?.id} />
          {o.name}
        </MenuButton>
      ))}
      <MenuLine />
      <MenuLink to="/org/settings">Organization settings</MenuLink>
      <MenuLink to="/org/notifications">Notifications</MenuLink>
      <MenuLink to="/org/audit">Audit log</MenuLink>
    </Menu>
  )
}

/** Marks the chosen one of several; the others keep its place free. */
const Tick = ({ isOn }: { isOn: boolean }) => (
  <span className={isOn ? css.tick : css.noTick}>
    <Icon name="check" />
    {isOn && <span className="visually-hidden">Selected: </span>}
  </span>
)

function Account({ me, onHelp }: { me: Me; onHelp(): void }) {
  const now = useStore(theme)
  return (
    <Menu label={`Account of ${me.name}`} face={<Avatar name={me.name} />}>
      <MenuNote>
        <span className={css.name}>{me.name}</span>
        <br />
        {me.email}
      </MenuNote>
      <MenuLine />
      <MenuLink to="/account">Account</MenuLink>
      <MenuLink to="/account/tokens">Tokens</MenuLink>
      {me.is_platform_admin && <MenuLink to="/admin">Platform administration</MenuLink>}
      <MenuButton onClick={onHelp}>Keyboard and help</MenuButton>
      <MenuLine />
      <MenuNote>Theme</MenuNote>
      {THEMES.map((name) => (
        <MenuButton key={name} onClick={() => chooseTheme(name)}>
          <Tick isOn={name === now} />
          {capital(name)}
        </MenuButton>
      ))}
      <MenuLine />
      <MenuButton onClick={() => void signOut()}>Sign out</MenuButton>
    </Menu>
  )
}
