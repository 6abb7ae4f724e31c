// The channels that hear of a project.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { trpc } from '../../api.ts'
import { Section } from '../../components/page.tsx'
import { Loaded } from '../../components/states.tsx'
import type { Project } from '../../data.ts'
import { describeRule, KINDS } from './channels.ts'

export function ProjectChannels({ project: p }: { project: Project }) {
  const asked = { organization_id: p.organization_id, project_id: p.id }
  const query = useQuery(trpc.channel.list.queryOptions(asked))
  const names = new Map([[p.id, p.name]])
  return (
    <Section title="Notifications" actions={<Link to="/org/notifications">Manage channels</Link>}>
      <Loaded query={query} what="Channels" lines={1}>
        {({ channels }) =>
          channels.length === 0 ? (
            <p>No channel sends notifications about this project.</p>
          ) : (
            <ul className="stack-small">
              {channels.map((c) => (
                <li key={c.id}>
                  {c.name} ({KINDS[c.kind]}
                  {c.broken_at && ', broken'}):{' '}
                  {c.rules
                    .filter((rule) => rule.project_id === null || rule.project_id === p.id)
                    .map((rule) => describeRule(rule, names))
                    .join('; ')}
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Section>
  )
}
