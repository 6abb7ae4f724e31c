// The samples of one theme.
import { TRPCClientError } from '@trpc/client'
import { useState } from 'react'
import { ActButton, Ask } from '../../components/act.tsx'
import { Avatar } from '../../components/avatar.tsx'
import { Badge } from '../../components/badge.tsx'
import { Button } from '../../components/button.tsx'
import { Bars } from '../../components/charts/bars.tsx'
import { Chart } from '../../components/charts/chart.tsx'
import { Stats, StatTile } from '../../components/charts/stat-tile.tsx'
import { CopyField } from '../../components/copy.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Check, Secret, Select, Text } from '../../components/forms/field.tsx'
import { Form } from '../../components/forms/form.tsx'
import { Icon } from '../../components/icon.tsx'
import { Menu, MenuButton, MenuLine, MenuLink, MenuNote } from '../../components/menu.tsx'
import { Meter } from '../../components/meter.tsx'
import { More } from '../../components/more.tsx'
import { Panels } from '../../components/navigation/panels.tsx'
import { SideNav } from '../../components/navigation/side-nav.tsx'
import { Facts, Section } from '../../components/page.tsx'
import {
  Banner,
  Empty,
  ErrorState,
  NoAccess,
  Note,
  Offline,
  Skeleton,
} from '../../components/states.tsx'
import { Status, TaskStatus } from '../../components/status.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Tabs } from '../../components/tabs.tsx'
import { say } from '../../components/toast.tsx'
import css from './design.module.css'

const COLOURS = [
  'bg',
  'surface',
  'raised',
  'sunken',
  'border',
  'border-strong',
  'text',
  'muted',
  'primary',
  'accent',
  'accent-soft',
  'ok',
  'ok-soft',
  'warn',
  'warn-soft',
  'bad',
  'bad-soft',
]
const STATES = ['running', 'deploying', 'queued', 'degraded', 'failed', 'stopped', 'offline']
const MINUTE = 60_000
const START = Date.UTC(2026, 10, 17, 9)
const TIMES = Array.from({ length: 60 }, (_, n) => START + n * MINUTE)
const WAVE = TIMES.map((_, n) => 40 + 25 * Math.sin(n / 6) + 8 * Math.sin(n / 2))

export function Gallery({ theme }: { theme: string }) {
  return (
    <>
      <Foundations />
      <Buttons />
      <Fields theme={theme} />
      <Overlays />
      <Navigation theme={theme} />
      <Data theme={theme} />
      <Charts theme={theme} />
      <States />
    </>
  )
}

function Foundations() {
  return (
    <Section title="Colours and type" isBare>
      <div className={css.colours}>
        {COLOURS.map((name) => (
          <div key={name}>
            <div className={css.colour} style={{ background: `var(--${name})` }} />
            {name}
          </div>
        ))}
      </div>
      <div className={css.type}>
        <h2>Heading of a section, 16 px, 600</h2>
        <h3>Name of a part, 14 px, 500</h3>
        <p>Text, 14 px, 400. Ästhetik, žluťoučký kůň, Łódź; 0123456789.</p>
        <p className="muted small">Hint, 13 px. Numbers in tables are tabular: 1,118 and 4,090.</p>
        <p>
          <code>npm run build</code> and <kbd>Ctrl K</kbd>, and <a href="#link">a link in text</a>.
        </p>
      </div>
    </Section>
  )
}

function Buttons() {
  return (
    <Section title="Buttons" isBare>
      <div className="row">
        <Button kind="main">Deploy</Button>
        <Button>Visit</Button>
        <Button kind="quiet">Cancel</Button>
        <Button kind="danger">Delete project</Button>
      </div>
      <div className="row">
        <Button kind="main" small>
          Save
        </Button>
        <Button small>
          <Icon name="reload" /> Restart
        </Button>
        <Button kind="quiet" small aria-label="More" data-tip="More">
          <Icon name="more" />
        </Button>
        <Button kind="main" busy>
          Saving
        </Button>
        <Button busy>Loading</Button>
      </div>
      <div className="row">
        <Button kind="main" reason="A deployment is running.">
          Deploy
        </Button>
      </div>
      <div className="row">
        <ActButton act={() => Promise.reject(new Error('The server refused.'))}>Fail</ActButton>
      </div>
    </Section>
  )
}

const INVALID = TRPCClientError.from({
  error: {
    message: 'Check the name.',
    code: -32_600,
    data: { status: 400, errors: [{ field: 'name', message: 'Use at most 63 characters.' }] },
  },
})

function Fields({ theme }: { theme: string }) {
  return (
    <Section title="Fields">
      <Form
        submit="Save changes"
        label={`Example in ${theme}`}
        beside={<Button kind="quiet">Cancel</Button>}
        send={() => Promise.reject(INVALID)}
      >
        <Text label="Name" name="name" defaultValue="shop" hint="Part of the address." />
        <Select label="Recipe" name="recipe">
          <option>docker</option>
          <option>manual</option>
        </Select>
        <Secret label="Password" name="password" hint="8 to 72 characters." />
        <Text label="Slug" name="slug" defaultValue="shop" readOnly />
        <Check label="Deploy automatically" name="auto" hint="On every push." defaultChecked />
      </Form>
    </Section>
  )
}

function Overlays() {
  const [open, setOpen] = useState<'dialog' | 'ask'>()
  return (
    <Section title="Menu, dialog, toast, tooltip" isBare>
      <div className="row">
        <Menu label="Actions" kind="plain">
          <MenuNote>staging</MenuNote>
          <MenuButton onClick={() => say('Restarted.')}>Restart</MenuButton>
          <MenuButton onClick={() => say('Stopped.')}>Stop</MenuButton>
          <MenuButton onClick={() => setOpen('dialog')}>Rename…</MenuButton>
          <MenuLine />
          <MenuLink to="/design">Settings</MenuLink>
          <MenuLink href="https://example.com/">Open the site</MenuLink>
        </Menu>
        <Button onClick={() => setOpen('dialog')}>Open dialog</Button>
        <Button onClick={() => setOpen('ask')}>Ask</Button>
        <Button onClick={() => say('Saved.')}>Show toast</Button>
        <Button data-tip="Copies the address" aria-label="Copy address">
          <Icon name="copy" />
        </Button>
      </div>
      {open === 'dialog' && (
        <Dialog title="Rename project" onClose={() => setOpen(undefined)}>
          <Form submit="Rename" send={async () => setOpen(undefined)}>
            <Text label="Name" name="title" defaultValue="shop" />
          </Form>
        </Dialog>
      )}
      {open === 'ask' && (
        <Ask
          title="Delete shop?"
          submit="Delete project"
          word="shop"
          send={async () => say('Deleted.')}
          onClose={() => setOpen(undefined)}
        >
          <p>This stops 3 environments and removes their data.</p>
        </Ask>
      )}
    </Section>
  )
}

function Navigation({ theme }: { theme: string }) {
  return (
    <Section title="Navigation" isBare>
      <Tabs
        label={`Tabs in ${theme}`}
        tabs={[
          { to: '/design', label: 'Overview' },
          { to: '/design/deployments', label: 'Deployments' },
          { to: '/design/logs', label: 'Logs' },
        ]}
      />
      <Panels
        label={`Period in ${theme}`}
        panels={[
          { id: 'hour', label: 'Hour', content: <p>The last hour.</p> },
          { id: 'day', label: 'Day', content: <p>The last day.</p> },
          { id: 'week', label: 'Week', content: <p>The last week.</p> },
        ]}
      />
      <SideNav
        label={`Settings in ${theme}`}
        links={[
          { to: '/design', label: 'General', group: 'Project' },
          { to: '/design/domains', label: 'Domains', mark: 2 },
          { to: '/design/people', label: 'Access', group: 'Organization' },
        ]}
      >
        <Section title="General">
          <p>The content of the chosen part.</p>
        </Section>
      </SideNav>
    </Section>
  )
}

const PAGED = {
  data: { items: ['web', 'worker'], next: 1 },
  error: undefined,
  isError: false,
  refetch: () => {},
}

function Data({ theme }: { theme: string }) {
  return (
    <Section title="Data" isBare>
      <div className="row">
        {STATES.map((state) => (
          <Status key={state} of={state} />
        ))}
        <TaskStatus of="running" />
        <TaskStatus of="succeeded" />
      </div>
      <div className="row">
        <Badge>Preview</Badge>
        <Badge tone="ok">Live</Badge>
        <Badge tone="warn">Outdated</Badge>
        <Badge tone="bad">Blocked</Badge>
        <Badge tone="accent">PR #42</Badge>
        <span className="with-icon">
          <Avatar name="Grace Hopper" /> Grace Hopper
        </span>
      </div>
      <More
        what="Services"
        query={PAGED}
        older={async () => ({ items: ['cron'], next: null })}
        keyOf={(name) => name.length}
        empty={<Empty title="No services" />}
      >
        {(names) => (
          <Table label={`Services in ${theme}`} head={['Service', 'State', 'Memory', 'Deployed']}>
            {names.map((name) => (
              <Row key={name}>
                <Cell of="Service">
                  <a href={`#${name}`}>{name}</a>
                </Cell>
                <Cell of="State" plain>
                  <Status of={name === 'cron' ? 'failed' : 'running'} />
                </Cell>
                <Cell of="Memory">412 MB</Cell>
                <Cell of="Deployed" end>
                  4 min ago
                </Cell>
              </Row>
            ))}
          </Table>
        )}
      </More>
      <Section title="Facts">
        <Facts
          of={[
            ['Server', 'fra-1'],
            ['Branch', 'checkout-v2'],
            ['Commit', <code key="c">c136499</code>],
          ]}
        />
        <Meter label="Disk" part={0.62} text="41 GB free" />
        <Meter label="Memory" part={0.94} text="240 MB free" />
        <CopyField label="command" text="berth ssh -e staging" />
      </Section>
    </Section>
  )
}

function Charts({ theme }: { theme: string }) {
  return (
    <Section title="Charts" isBare>
      <Stats>
        <StatTile label="Requests" value="12,480" hint="last hour" />
        <StatTile label="p95" value="182 ms" hint="12 ms more than yesterday" tone="warn" />
        <StatTile label="Errors" value="0.4 %" hint="last hour" to="/design/errors" />
      </Stats>
      <Section title="Deployments">
        <Bars
          label={`Deployments in ${theme}`}
          bars={Array.from({ length: 16 }, (_, n) => ({
            tone: n === 15 ? 'busy' : n === 6 ? 'bad' : n === 9 ? 'none' : 'ok',
            height: 0.35 + 0.3 * Math.abs(Math.sin(n)),
            label: `Deployment ${800 + n}`,
            href: `/tasks/${800 + n}`,
          }))}
        />
      </Section>
      <Section title="Usage">
        <Chart
          label={`Memory in ${theme}`}
          times={TIMES}
          series={[{ label: 'web', values: WAVE }]}
          format={(value) => `${Math.round(value)} MB`}
        />
        <Chart
          label={`Requests in ${theme}`}
          times={TIMES}
          series={[
            { label: '2xx', values: WAVE },
            { label: '4xx', values: WAVE.map((v, n) => (n > 20 && n < 26 ? null : v / 4)) },
            { label: '5xx', values: WAVE.map((v) => v / 9), tone: 'bad' },
          ]}
          format={(value) => `${Math.round(value)}/s`}
        />
        <Chart label={`Empty in ${theme}`} times={[]} series={[]} format={String} height={80} />
      </Section>
    </Section>
  )
}

function States() {
  return (
    <Section title="States" isBare>
      <Banner>Version 1.4 is available.</Banner>
      <Note>Variables changed since the last deployment.</Note>
      <Note kind="ok">The domain is verified.</Note>
      <Note kind="warn">fra-1 has been offline since 09:02.</Note>
      <Note kind="bad">The build failed in step 4.</Note>
      <Empty title="No environments">
        <p>Push a branch or open a pull request to create one.</p>
        <Button kind="main">New environment</Button>
      </Empty>
      <ErrorState
        what="Projects"
        error={new Error('The server did not answer.')}
        again={() => {}}
      />
      <Offline what="fra-1" />
      <NoAccess />
      <Skeleton />
    </Section>
  )
}
