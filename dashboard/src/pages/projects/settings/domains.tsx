// The domain of a project, its further names, and whether each name leads to its server with a certificate.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api, change, trpc } from '../../../api.ts'
import { ActButton } from '../../../components/act.tsx'
import { Area, Text } from '../../../components/forms/field.tsx'
import { Form, lines, text } from '../../../components/forms/form.tsx'
import { useSteadyKey } from '../../../components/forms/unsaved.tsx'
import { Section } from '../../../components/page.tsx'
import { Loaded } from '../../../components/states.tsx'
import { Status } from '../../../components/status.tsx'
import { Cell, Row, Table } from '../../../components/table.tsx'
import { Moment, Time } from '../../../components/time.tsx'
import type { Project } from '../../../data.ts'
import type { PartProps } from './general.tsx'

export function Domains({ project: p, reason }: PartProps) {
  const [key, track] = useSteadyKey([p.domain, p.custom_domains])
  return (
    <>
      <Section title="Domains">
        <Form
          key={key}
          submit="Save changes"
          done="Saved."
          reason={reason}
          label="Domains"
          onDirty={track}
          send={(data) =>
            change(
              api.project.update.mutate({
                project_id: p.id,
                domain: text(data, 'domain').trim(),
                custom_domains: lines(data, 'custom_domains'),
              }),
            )
          }
        >
          <Text
            label="Domain"
            name="domain"
            defaultValue={p.domain}
            hint="Environments get names below it. Existing ones keep their addresses until the next deployment."
            spellCheck={false}
            required
          />
          <Area
            label="Custom domains"
            name="custom_domains"
            rows={2}
            hint="Other host names that .service.yml may use, one per line."
            defaultValue={p.custom_domains.join('\n')}
          />
        </Form>
      </Section>
      <Names project={p} reason={reason} />
    </>
  )
}

type Domain = Awaited<ReturnType<typeof api.project.domains.query>>['domains'][number]
type Check = NonNullable<Domain['check']>

/** The state whose look fits, and the words. */
type Look = readonly [state: string, word: string]
const DNS: Record<Check['dns'], Look> = {
  ok: ['accepted', 'Points to the server'],
  elsewhere: ['degraded', 'Points elsewhere'],
  missing: ['failed', 'No record'],
  unknown: ['unknown', 'Server address unknown'],
}
const TLS: Record<Check['tls'], Look> = {
  ok: ['accepted', 'Valid'],
  expiring: ['degraded', 'Expires soon'],
  refused: ['failed', 'Not accepted'],
  none: ['failed', 'No answer'],
  not_checked: ['unknown', 'Not checked'],
}
const PER_NAME: Look = ['unknown', 'One for each name']

function Names({ project: p, reason }: { project: Project; reason: string | undefined }) {
  const asked = { project_id: p.id }
  const query = useQuery(trpc.project.domains.queryOptions(asked))
  const look = () => change(api.project.checkDomains.mutate(asked))
  return (
    <Section
      title="DNS and certificates"
      isBare
      actions={
        <ActButton act={look} reason={reason}>
          Check now
        </ActButton>
      }
    >
      <Loaded query={query} what="Names" lines={2}>
        {({ domains }) => (
          <Table label="DNS and certificates" head={['Name', 'DNS', 'Certificate', 'Checked']}>
            {domains.map((d) => (
              <NameRow key={`${d.host} ${d.server.id}`} domain={d} />
            ))}
          </Table>
        )}
      </Loaded>
      <p className="muted small">
        The control plane looks the names up and connects to port 443. Results are kept until it
        restarts.
      </p>
    </Section>
  )
}

function NameRow({ domain: d }: { domain: Domain }) {
  const { check } = d
  return (
    <Row>
      <Cell of="Name">
        <div className="stack-small">
          <span>{d.host}</span>
          <span className="muted small">
            {d.environment ? (
              <Link to="/environments/$id" params={{ id: String(d.environment.id) }}>
                {d.environment.identifier}
              </Link>
            ) : (
              'Pull requests and new environments'
            )}{' '}
            on {d.server.name}
          </span>
          {check?.advice && <span className="small">{check.advice}</span>}
        </div>
      </Cell>
      <Cell of="DNS" plain>
        {check ? <State of={DNS[check.dns]} /> : <span className="muted">Not checked yet</span>}
      </Cell>
      <Cell of="Certificate">
        {check ? (
          <div className="stack-small">
            <State of={d.environment ? TLS[check.tls] : PER_NAME} />
            {check.valid_to && (
              <span className="muted small">
                {check.issuer}, until <Moment at={check.valid_to} />
              </span>
            )}
          </div>
        ) : (
          ''
        )}
      </Cell>
      <Cell of="Checked">{check ? <Time at={check.checked_at} /> : ''}</Cell>
    </Row>
  )
}

const State = ({ of: [state, word] }: { of: Look }) => <Status of={state} word={word} />
