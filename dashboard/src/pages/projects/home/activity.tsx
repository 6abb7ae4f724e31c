// The newest deployments across projects.
import { Link } from '@tanstack/react-router'
import { Section } from '../../../components/page.tsx'
import { Empty, Loaded } from '../../../components/states.tsx'
import { TaskStatus } from '../../../components/status.tsx'
import { Time } from '../../../components/time.tsx'
import type { Overview, useOverview } from '../../../data.ts'
import { short } from '../../../format.ts'
import css from './projects.module.css'

export function Activity({ query }: { query: ReturnType<typeof useOverview> }) {
  return (
    <div className={css.activity}>
      <Section title="Recent deployments" isBare>
        <Loaded query={query} what="Deployments" lines={4}>
          {({ activity }) =>
            activity.length === 0 ? (
              <Empty title="Nothing deployed yet" />
            ) : (
              <ul className={css.items}>
                {activity.map((one) => (
                  <Item key={one.id} of={one} />
                ))}
              </ul>
            )
          }
        </Loaded>
      </Section>
    </div>
  )
}

function Item({ of: t }: { of: Overview['activity'][number] }) {
  return (
    <li>
      <Link to="/tasks/$id" params={{ id: String(t.id) }} className={css.item}>
        <span className={css.what}>
          {t.project.name} / {t.environment.identifier ?? 'removed'}
          <span className={css.time}>
            <Time at={t.at} />
          </span>
        </span>
        <span className={css.why}>
          <TaskStatus of={t.status} />
          <span className={css.commit}>
            {t.commit_sha && <code>{short(t.commit_sha)}</code>} {t.commit_message ?? t.branch}
          </span>
        </span>
      </Link>
    </li>
  )
}
