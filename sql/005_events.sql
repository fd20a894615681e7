-- SPDX-License-Identifier: Apache-2.0
--
-- Events: what happened, in one order that a reader can follow without loss.
--
-- An event is written by a trigger in the transaction that makes the change, so
-- neither exists without the other. Its place is (xid, seq): the transaction's
-- number, then a sequence. A sequence alone would not do, because a transaction
-- that took a lower number may commit later. A reader stops below the oldest
-- transaction that is still open (pg_snapshot_xmin): whatever is below it is
-- visible or will never be, so what was read once is complete.
--
-- Such a position outlives a crash of the server only if nothing visible is
-- lost by it: a transaction that writes an event commits synchronously, also
-- where it asked not to. A logical backup restored into a new cluster starts
-- with low transaction numbers: leave this table's rows out of it
-- (pg_dump --exclude-table-data=caisson.events).

SET LOCAL ROLE caisson_owner;

CREATE TABLE caisson.events (
	xid       xid8 NOT NULL DEFAULT pg_current_xact_id(),
	seq       bigint GENERATED ALWAYS AS IDENTITY,
	id        text NOT NULL DEFAULT caisson.new_id('evt_'),
	tenant    text NOT NULL, -- '' for what belongs to the cluster
	project   text,
	time      timestamptz NOT NULL DEFAULT clock_timestamp(),
	type      text NOT NULL,
	sandbox   text,
	operation text,
	actor     text,
	trace     text,
	data      jsonb NOT NULL DEFAULT '{}',
	PRIMARY KEY (xid, seq)
);
CREATE INDEX ON caisson.events (tenant, xid, seq);
CREATE INDEX ON caisson.events (sandbox, xid, seq) WHERE sandbox IS NOT NULL;
CREATE INDEX ON caisson.events (time);

-- Up to where a tenant's events were forgotten (inclusive).
CREATE TABLE caisson.event_floors (
	tenant text PRIMARY KEY,
	xid    xid8 NOT NULL,
	seq    bigint NOT NULL
);

ALTER TABLE caisson.sandboxes
	-- the ends_at for which sandbox.expiring was said
	ADD COLUMN IF NOT EXISTS expiring_for timestamptz;
ALTER TABLE caisson.nodes
	ADD COLUMN IF NOT EXISTS told_down boolean NOT NULL DEFAULT false;

-- Who acts, for everything that triggers write in this transaction. Returns
-- the tenant, so that a statement can make its other functions depend on this
-- one having run: FROM acting(…) AS a CROSS JOIN LATERAL f(a.acting_tenant, …)
CREATE FUNCTION caisson.acting(p_tenant text, p_actor text, p_name text,
	p_request text, p_trace text)
RETURNS TABLE (acting_tenant text)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	PERFORM set_config('caisson.actor', coalesce(p_actor, ''), true),
		set_config('caisson.actor_name', coalesce(p_name, ''), true),
		set_config('caisson.request', coalesce(p_request, ''), true),
		set_config('caisson.trace', coalesce(p_trace, ''), true);
	acting_tenant := p_tenant;
	RETURN NEXT;
END $$;

CREATE FUNCTION caisson.acting_as(p_what text) RETURNS text
LANGUAGE sql STABLE AS $$
	SELECT nullif(current_setting('caisson.' || p_what, true), '')
$$;

-- Opaque to clients; src/api/event-cursor.c reads it.
CREATE FUNCTION caisson.event_cursor(p_xid xid8, p_seq bigint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
	SELECT c || left(encode(sha256(convert_to(c, 'UTF8')), 'hex'), 4)
	FROM (SELECT 'e' || lpad(to_hex(p_xid::text::bigint), 16, '0')
		|| lpad(to_hex(p_seq), 16, '0') AS c) x
$$;

CREATE FUNCTION caisson.event_json(e caisson.events) RETURNS json
LANGUAGE sql STABLE AS $$
	SELECT json_build_object('id', e.id,
		'cursor', caisson.event_cursor(e.xid, e.seq),
		'time', caisson.ts(e.time), 'type', e.type,
		'project', e.project, 'sandbox', e.sandbox,
		'operation', e.operation, 'actor', e.actor,
		'data', e.data, 'trace', e.trace)
$$;

-- Write one, in the caller's transaction. For triggers and for functions whose
-- fact is no change of a row that has a trigger (quotas).
CREATE FUNCTION caisson.event_add(p_tenant text, p_project text, p_type text,
	p_sandbox text, p_operation text, p_actor text, p_trace text,
	p_data jsonb)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
BEGIN
	INSERT INTO caisson.events (tenant, project, type, sandbox, operation,
		actor, trace, data)
	VALUES (p_tenant, p_project, p_type, p_sandbox, p_operation,
		coalesce(caisson.acting_as('actor'), p_actor),
		coalesce(caisson.acting_as('trace'), p_trace),
		jsonb_strip_nulls(coalesce(p_data, '{}')));
	-- see the head of this file
	IF current_setting('synchronous_commit') = 'off' THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
END $$;
REVOKE ALL ON FUNCTION caisson.event_add FROM PUBLIC;
GRANT EXECUTE ON FUNCTION caisson.event_add
	TO caisson_api, caisson_controller;

-- ---- sandboxes ----

-- The event of a new observed state, NULL if it has none.
CREATE FUNCTION caisson.sandbox_event_type(p_old text, p_new text)
RETURNS text
LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE
		WHEN p_new = 'running' AND p_old IN ('paused', 'suspended')
			THEN 'sandbox.resumed'
		WHEN p_new IN ('running', 'paused', 'suspended', 'ended',
			'lost', 'failed') THEN 'sandbox.' || p_new
	END
$$;

CREATE FUNCTION caisson.sandbox_event_data(s caisson.sandboxes, p_type text)
RETURNS jsonb
LANGUAGE sql STABLE AS $$
	SELECT CASE
		WHEN p_type = 'sandbox.created' THEN jsonb_build_object(
			'name', s.name, 'template', s.template,
			'release', s.release, 'labels', s.labels,
			'resources', jsonb_build_object('vcpus', s.vcpus,
				'memory_mib', s.memory_mib,
				'disk_mib', s.disk_mib),
			'ends_at', caisson.ts(s.ends_at))
		WHEN p_type IN ('sandbox.ended', 'sandbox.failed',
			'sandbox.lost') THEN jsonb_build_object(
			'name', s.name, 'reason', s.end_reason,
			'detail', s.end_detail, 'at', caisson.ts(s.end_at),
			'last_usage', s.last_usage)
		WHEN p_type IN ('sandbox.updated', 'sandbox.expiring') THEN
			jsonb_build_object('name', s.name, 'labels', s.labels,
				'ends_at', caisson.ts(s.ends_at),
				'on_expiry', s.on_expiry)
		ELSE jsonb_build_object('name', s.name, 'node', s.node,
			'isolation', s.isolation_level)
	END
$$;

CREATE FUNCTION caisson.sandbox_event() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	v_types text[] := '{}';
	v_type text;
	o caisson.operations;
BEGIN
	IF TG_OP = 'INSERT' THEN
		v_types := ARRAY['sandbox.created'];
	ELSE
		IF (NEW.labels, NEW.name, NEW.ends_at, NEW.on_expiry)
			IS DISTINCT FROM
			(OLD.labels, OLD.name, OLD.ends_at, OLD.on_expiry)
			AND NEW.observed = OLD.observed THEN
			v_types := v_types || 'sandbox.updated'::text;
		END IF;
		IF NEW.expiring_for IS DISTINCT FROM OLD.expiring_for
			AND NEW.expiring_for IS NOT NULL THEN
			v_types := v_types || 'sandbox.expiring'::text;
		END IF;
		IF NEW.observed <> OLD.observed
			AND caisson.sandbox_event_type(OLD.observed,
				NEW.observed) IS NOT NULL THEN
			v_types := v_types || caisson.sandbox_event_type(
				OLD.observed, NEW.observed);
		END IF;
		SELECT * INTO o FROM caisson.operations x
			WHERE x.sandbox = NEW.id
			ORDER BY x.sandbox_seq DESC LIMIT 1;
	END IF;
	FOREACH v_type IN ARRAY v_types LOOP
		PERFORM caisson.event_add(NEW.tenant, NEW.project, v_type,
			NEW.id, CASE WHEN v_type NOT IN ('sandbox.updated',
				'sandbox.expiring') THEN o.id END,
			CASE WHEN v_type = 'sandbox.expiring' THEN 'controller'
				ELSE coalesce(o.created_by, NEW.created_by) END,
			o.trace, caisson.sandbox_event_data(NEW, v_type));
	END LOOP;
	RETURN NULL;
END $$;
CREATE TRIGGER event_insert AFTER INSERT ON caisson.sandboxes
	FOR EACH ROW EXECUTE FUNCTION caisson.sandbox_event();
CREATE TRIGGER event_update AFTER UPDATE ON caisson.sandboxes
	FOR EACH ROW WHEN ((OLD.observed, OLD.labels, OLD.name, OLD.ends_at,
		OLD.on_expiry, OLD.expiring_for) IS DISTINCT FROM
		(NEW.observed, NEW.labels, NEW.name, NEW.ends_at,
		NEW.on_expiry, NEW.expiring_for))
	EXECUTE FUNCTION caisson.sandbox_event();

-- Say once per end that it is near: p_before_s ahead, and only of those that
-- live at least twice as long, so that one can still act. Returns how many.
CREATE FUNCTION caisson.sandbox_expiring(p_before_s integer, p_limit integer)
RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
	WITH due AS (
		SELECT s.id FROM caisson.sandboxes s
		WHERE s.ends_at > now()
		  AND s.ends_at <= now() + p_before_s * interval '1 second'
		  AND s.ends_at - s.created_at
			>= 2 * p_before_s * interval '1 second'
		  AND s.desired <> 'deleted'
		  AND s.observed NOT IN ('ended', 'failed', 'lost')
		  AND s.expiring_for IS DISTINCT FROM s.ends_at
		ORDER BY s.ends_at LIMIT p_limit FOR UPDATE SKIP LOCKED
	), told AS (
		UPDATE caisson.sandboxes s SET expiring_for = s.ends_at
		FROM due WHERE s.id = due.id RETURNING 1
	)
	SELECT count(*)::integer FROM told
$$;

-- ---- operations, templates ----

CREATE FUNCTION caisson.operation_event() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	v_type text;
	v_data jsonb;
	v_template jsonb;
BEGIN
	IF TG_OP = 'INSERT' THEN
		v_type := 'operation.started';
		v_data := jsonb_build_object('kind', NEW.kind,
			'reason', NEW.reason, 'template', NEW.template);
	ELSIF NEW.finished_at IS NOT NULL AND OLD.finished_at IS NULL THEN
		v_type := 'operation.finished';
		v_data := jsonb_build_object('kind', NEW.kind,
			'state', NEW.state, 'error', NEW.error,
			'reason', NEW.reason, 'template', NEW.template,
			'superseded_by', NEW.superseded_by);
	ELSE
		v_type := 'operation.progress';
		v_data := jsonb_build_object('kind', NEW.kind,
			'progress', NEW.progress);
	END IF;
	PERFORM caisson.event_add(NEW.tenant, NEW.project, v_type,
		NEW.sandbox, NEW.id, NEW.created_by, NEW.trace, v_data);
	IF NEW.kind <> 'template_build' OR v_type = 'operation.progress' THEN
		RETURN NULL;
	END IF;
	v_template := jsonb_build_object('template', NEW.template,
		'release', NEW.request ->> 'release', 'error', NEW.error);
	PERFORM caisson.event_add(NEW.tenant, NEW.project,
		CASE WHEN v_type = 'operation.started'
			THEN 'template.building'
			WHEN NEW.state = 'succeeded' THEN 'template.ready'
			ELSE 'template.failed' END,
		NULL, NEW.id, NEW.created_by, NEW.trace, v_template);
	RETURN NULL;
END $$;
CREATE TRIGGER event_insert AFTER INSERT ON caisson.operations
	FOR EACH ROW EXECUTE FUNCTION caisson.operation_event();
-- Progress is told once per phase: its numbers are the operation's to show.
CREATE TRIGGER event_update AFTER UPDATE ON caisson.operations
	FOR EACH ROW WHEN ((OLD.finished_at IS NULL
			AND NEW.finished_at IS NOT NULL)
		OR (NEW.finished_at IS NULL AND OLD.progress ->> 'phase'
			IS DISTINCT FROM NEW.progress ->> 'phase'))
	EXECUTE FUNCTION caisson.operation_event();

CREATE FUNCTION caisson.tag_event() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
BEGIN
	PERFORM caisson.event_add(NEW.tenant, NEW.project, 'template.tagged',
		NULL, NULL, NULL, NULL, jsonb_build_object(
			'template', NEW.template, 'tag', NEW.tag,
			'release', NEW.release,
			'generation', NEW.generation));
	RETURN NULL;
END $$;
CREATE TRIGGER event_insert AFTER INSERT ON caisson.tags
	FOR EACH ROW EXECUTE FUNCTION caisson.tag_event();
CREATE TRIGGER event_update AFTER UPDATE ON caisson.tags
	FOR EACH ROW WHEN (OLD.generation <> NEW.generation)
	EXECUTE FUNCTION caisson.tag_event();

-- ---- quotas ----

-- A create that takes a project over four fifths of a limit, or to it, says so.
CREATE FUNCTION caisson.quota_event() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	q jsonb;
	u jsonb;
	v_add jsonb;
	k text;
	v_limit bigint;
	v_used bigint;
	v_word text;
BEGIN
	SELECT to_jsonb(x) INTO q FROM caisson.quotas x
		WHERE x.project = NEW.project;
	IF q IS NULL THEN
		RETURN NULL;
	END IF;
	SELECT jsonb_build_object('sandboxes', count(*),
		'vcpus', coalesce(sum(s.vcpus), 0),
		'memory_mib', coalesce(sum(s.memory_mib), 0),
		'disk_mib', coalesce(sum(s.disk_mib), 0)) INTO u
		FROM caisson.sandboxes s WHERE s.project = NEW.project
		  AND s.observed NOT IN ('ended', 'failed', 'lost');
	v_add := to_jsonb(NEW) || '{"sandboxes":1}';
	FOREACH k IN ARRAY ARRAY['sandboxes', 'vcpus', 'memory_mib',
		'disk_mib'] LOOP
		v_limit := (q ->> k)::bigint;
		v_used := (u ->> k)::bigint;
		CONTINUE WHEN v_limit IS NULL OR v_limit = 0;
		v_word := CASE
			WHEN v_used >= v_limit THEN 'quota.reached'
			WHEN v_used * 5 >= v_limit * 4 AND (v_used
				- (v_add ->> k)::bigint) * 5 < v_limit * 4
				THEN 'quota.near' END;
		CONTINUE WHEN v_word IS NULL;
		PERFORM caisson.event_add(NEW.tenant, NEW.project, v_word,
			NEW.id, NULL, NEW.created_by, NULL,
			jsonb_build_object('quota', k, 'used', v_used,
				'limit', v_limit));
	END LOOP;
	RETURN NULL;
END $$;
CREATE TRIGGER event_quota AFTER INSERT ON caisson.sandboxes
	FOR EACH ROW EXECUTE FUNCTION caisson.quota_event();

-- ---- nodes ----

-- Before an update, because a heartbeat clears what node_silent() set.
CREATE FUNCTION caisson.node_event() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	v_what text;
BEGIN
	IF TG_OP = 'INSERT' THEN
		v_what := 'up';
	ELSIF NEW.told_down AND NOT OLD.told_down THEN
		v_what := 'down';
	ELSIF NEW.lease_until > now() AND (OLD.told_down
		OR OLD.incarnation <> NEW.incarnation) THEN
		v_what := 'up';
		NEW.told_down := false;
	ELSIF NEW.state = 'draining' AND OLD.state <> 'draining' THEN
		v_what := 'draining';
	ELSE
		RETURN NEW;
	END IF;
	PERFORM caisson.event_add('', NULL, 'node.' || v_what, NULL, NULL,
		'controller', NULL, jsonb_build_object('node', NEW.name,
			'incarnation', NEW.incarnation,
			'version', NEW.version, 'state', NEW.state,
			'heartbeat_at', caisson.ts(NEW.heartbeat_at)));
	RETURN NEW;
END $$;
-- (not before: that runs for every heartbeat, which then finds a conflict)
CREATE TRIGGER event_insert AFTER INSERT ON caisson.nodes
	FOR EACH ROW EXECUTE FUNCTION caisson.node_event();
CREATE TRIGGER event_update BEFORE UPDATE ON caisson.nodes
	FOR EACH ROW WHEN (OLD.told_down OR NEW.told_down
		OR OLD.incarnation <> NEW.incarnation OR OLD.state <> NEW.state)
	EXECUTE FUNCTION caisson.node_event();

-- Nodes whose lease ran out: say so once. Returns how many.
CREATE FUNCTION caisson.node_silent() RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
	WITH told AS (
		UPDATE caisson.nodes n SET told_down = true
		WHERE n.name IN (SELECT x.name FROM caisson.nodes x
			WHERE x.lease_until < now() AND NOT x.told_down
			FOR UPDATE SKIP LOCKED)
		RETURNING 1
	)
	SELECT count(*)::integer FROM told
$$;

-- ---- reading ----

-- A page in order, after (p_xid, p_seq); NULL begins with the oldest kept.
-- p_project NULL: the whole tenant; p_cluster: and the cluster's own.
-- p_types: exact, or `sandbox.*`. Raises CA011 if events after the cursor were
-- forgotten already. One row more than asked tells that there is a next page.
CREATE FUNCTION caisson.events_page(p_tenant text, p_project text,
	p_cluster boolean, p_xid xid8, p_seq bigint, p_types text[],
	p_sandbox text, p_limit integer)
RETURNS TABLE (xid text, seq bigint, cursor text, item json)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
	PERFORM caisson.scope(p_tenant);
	IF p_xid IS NOT NULL AND EXISTS (SELECT FROM caisson.event_floors f
		WHERE (f.tenant = p_tenant OR p_cluster AND f.tenant = '')
		  AND (f.xid, f.seq) > (p_xid, p_seq)) THEN
		RAISE EXCEPTION 'events after this cursor were forgotten'
			USING ERRCODE = 'CA011';
	END IF;
	RETURN QUERY SELECT e.xid::text, e.seq,
		caisson.event_cursor(e.xid, e.seq), caisson.event_json(e)
		FROM caisson.events e
		WHERE (e.tenant = p_tenant OR p_cluster AND e.tenant = '')
		  AND e.xid < pg_snapshot_xmin(pg_current_snapshot())
		  AND (p_xid IS NULL OR (e.xid, e.seq) > (p_xid, p_seq))
		  AND (p_project IS NULL OR e.project = p_project)
		  AND (p_sandbox IS NULL OR e.sandbox = p_sandbox)
		  AND (p_types IS NULL OR e.type = ANY (p_types)
			OR split_part(e.type, '.', 1) || '.*' = ANY (p_types))
		ORDER BY e.xid, e.seq LIMIT p_limit;
END $$;

-- For one query per API process, whoever follows: every tenant's events after
-- a position, with what decides who may see them. Runs as owner.
CREATE FUNCTION caisson.events_news(p_xid xid8, p_seq bigint,
	p_limit integer)
RETURNS TABLE (xid text, seq bigint, tenant text, project text, type text,
	sandbox text, cursor text, item json)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
	SELECT e.xid::text, e.seq, e.tenant, e.project, e.type, e.sandbox,
		caisson.event_cursor(e.xid, e.seq), caisson.event_json(e)
	FROM caisson.events e
	WHERE (e.xid, e.seq) > (p_xid, p_seq)
	  AND e.xid < pg_snapshot_xmin(pg_current_snapshot())
	ORDER BY e.xid, e.seq LIMIT p_limit
$$;

-- The newest readable position, 0 0 if there is none. An event's own, never
-- the horizon: numbers of transactions that wrote nothing come again after a
-- crash. p_tenant NULL: of all (runs as owner, tells no content).
CREATE FUNCTION caisson.events_newest(p_tenant text, p_cluster boolean)
RETURNS TABLE (xid text, seq bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
	(SELECT e.xid::text, e.seq FROM caisson.events e
		WHERE (p_tenant IS NULL OR e.tenant = p_tenant
			OR p_cluster AND e.tenant = '')
		  AND e.xid < pg_snapshot_xmin(pg_current_snapshot())
		ORDER BY e.xid DESC, e.seq DESC LIMIT 1)
	UNION ALL SELECT '0', 0
	LIMIT 1
$$;

-- Forget what is older than p_days, and remember up to where. Only what every
-- reader could have seen goes.
CREATE FUNCTION caisson.events_gc(p_days integer, p_limit integer)
RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	n integer;
BEGIN
	WITH old AS (
		SELECT e.ctid FROM caisson.events e
		WHERE e.time < now() - p_days * interval '1 day'
		  AND e.xid < pg_snapshot_xmin(pg_current_snapshot())
		ORDER BY e.xid, e.seq LIMIT p_limit FOR UPDATE SKIP LOCKED
	), gone AS (
		DELETE FROM caisson.events e USING old
		WHERE e.ctid = old.ctid RETURNING e.tenant, e.xid, e.seq
	), last AS (
		SELECT DISTINCT ON (tenant) tenant, xid, seq FROM gone
		ORDER BY tenant, xid DESC, seq DESC
	), noted AS (
		INSERT INTO caisson.event_floors AS f (tenant, xid, seq)
		SELECT tenant, xid, seq FROM last
		ON CONFLICT (tenant) DO UPDATE
			SET xid = excluded.xid, seq = excluded.seq
			WHERE (f.xid, f.seq) < (excluded.xid, excluded.seq)
	)
	SELECT count(*) INTO n FROM gone;
	RETURN n;
END $$;

ALTER TABLE caisson.events ENABLE ROW LEVEL SECURITY;
ALTER TABLE caisson.event_floors ENABLE ROW LEVEL SECURITY;
-- '' is nobody's tenant: the page function asks for it by role.
CREATE POLICY api ON caisson.events TO caisson_api
	USING (tenant IN (current_setting('caisson.tenant', true), ''));
CREATE POLICY api ON caisson.event_floors TO caisson_api
	USING (tenant IN (current_setting('caisson.tenant', true), ''));
CREATE POLICY controller ON caisson.events TO caisson_controller USING (true);
GRANT SELECT ON caisson.events, caisson.event_floors TO caisson_api;
GRANT SELECT ON caisson.events TO caisson_controller;

RESET ROLE;
