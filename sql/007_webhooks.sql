-- SPDX-License-Identifier: Apache-2.0
--
-- Webhooks: events pushed to a URL, at least once. The controller turns events
-- into deliveries (webhook_fanout), claims those that are due under a lease and
-- answers for each; it may die at any point and another goes on. Of one webhook
-- one delivery is under way at a time.

SET LOCAL ROLE caisson_owner;

CREATE TABLE caisson.webhooks (
	id          text PRIMARY KEY, -- whk_ + 20
	seq         bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
	tenant      text NOT NULL,
	project     text NOT NULL REFERENCES caisson.projects,
	url         text NOT NULL,
	types       text[] NOT NULL,
	labels      jsonb, -- of the event's sandbox; NULL: any event
	-- each: nonce, tag and AES-256-GCM text under webhook_key()
	secrets     bytea[] NOT NULL,
	state       text NOT NULL DEFAULT 'active'
		CHECK (state IN ('active', 'disabled')),
	reason      text, -- why it is disabled
	generation  bigint NOT NULL DEFAULT 1,
	after_xid   xid8 NOT NULL,
	after_seq   bigint NOT NULL,
	created_by  text NOT NULL,
	created_at  timestamptz NOT NULL DEFAULT now(),
	updated_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON caisson.webhooks (project, seq);

CREATE TABLE caisson.webhook_deliveries (
	id           text PRIMARY KEY, -- whd_ + 20
	seq          bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
	webhook      text NOT NULL
		REFERENCES caisson.webhooks ON DELETE CASCADE,
	event        text NOT NULL,
	type         text NOT NULL,
	body         text NOT NULL,
	state        text NOT NULL DEFAULT 'pending'
		CHECK (state IN ('pending', 'delivered', 'failed')),
	attempts     integer NOT NULL DEFAULT 0,
	-- retries end three days after this
	begun_at     timestamptz NOT NULL DEFAULT now(),
	next_at      timestamptz NOT NULL DEFAULT now(),
	owner        text,
	lease_until  timestamptz,
	status       integer,
	error        text,
	took_ms      integer,
	created_at   timestamptz NOT NULL DEFAULT now(),
	finished_at  timestamptz
);
CREATE INDEX ON caisson.webhook_deliveries (webhook, seq);
CREATE INDEX ON caisson.webhook_deliveries (webhook, next_at)
	WHERE state = 'pending';
CREATE INDEX ON caisson.webhook_deliveries (finished_at)
	WHERE finished_at IS NOT NULL;

-- The key that secrets are stored under. It is derived from the cluster's
-- secret, which lies in the same database: it keeps secrets out of copies of
-- these tables, not from whoever owns the database.
CREATE FUNCTION caisson.webhook_key() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
	SELECT encode(sha256(convert_to('caisson webhook secrets 1', 'UTF8')
		|| c.secret), 'hex') FROM caisson.cluster c
$$;
REVOKE ALL ON FUNCTION caisson.webhook_key FROM PUBLIC;
GRANT EXECUTE ON FUNCTION caisson.webhook_key
	TO caisson_api, caisson_controller;

CREATE FUNCTION caisson.webhook_json(w caisson.webhooks) RETURNS json
LANGUAGE sql STABLE AS $$
	SELECT json_build_object('id', w.id, 'project', w.project,
		'url', w.url, 'types', to_json(w.types), 'labels', w.labels,
		'secrets', cardinality(w.secrets), 'state', w.state,
		'reason', w.reason, 'generation', w.generation,
		'created_by', w.created_by,
		'created_at', caisson.ts(w.created_at),
		'updated_at', caisson.ts(w.updated_at))
$$;

CREATE FUNCTION caisson.delivery_json(d caisson.webhook_deliveries)
RETURNS json
LANGUAGE sql STABLE AS $$
	SELECT json_build_object('id', d.id, 'webhook', d.webhook,
		'event', d.event, 'type', d.type, 'state', d.state,
		'attempts', d.attempts, 'status', d.status, 'error', d.error,
		'took_ms', d.took_ms,
		'next_at', CASE WHEN d.state = 'pending'
			THEN caisson.ts(d.next_at) END,
		'created_at', caisson.ts(d.created_at),
		'finished_at', caisson.ts(d.finished_at))
$$;

-- ---- what the API calls ----

-- It begins with what happens from here on. Raises CA010 if the project has
-- p_max already.
CREATE FUNCTION caisson.webhook_create(p_tenant text, p_project text,
	p_id text, p_url text, p_types text[], p_labels jsonb,
	p_secrets bytea[], p_max integer, p_by text)
RETURNS json
LANGUAGE plpgsql AS $$
DECLARE
	w caisson.webhooks;
	pos record;
BEGIN
	PERFORM caisson.scope(p_tenant);
	IF (SELECT count(*) FROM caisson.webhooks x
		WHERE x.project = p_project) >= p_max THEN
		RAISE EXCEPTION 'webhooks' USING ERRCODE = 'CA010';
	END IF;
	SELECT * INTO pos FROM caisson.events_newest(NULL, true);
	INSERT INTO caisson.webhooks (id, tenant, project, url, types, labels,
		secrets, after_xid, after_seq, created_by)
	VALUES (p_id, p_tenant, p_project, p_url, p_types, p_labels,
		p_secrets, pos.xid::xid8, pos.seq, p_by) RETURNING * INTO w;
	RETURN caisson.webhook_json(w);
END $$;

CREATE FUNCTION caisson.webhook_list(p_tenant text, p_project text,
	p_after bigint, p_limit integer)
RETURNS TABLE (seq bigint, item json)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	RETURN QUERY SELECT w.seq, caisson.webhook_json(w)
		FROM caisson.webhooks w
		WHERE w.project = p_project
		  AND (p_after IS NULL OR w.seq < p_after)
		ORDER BY w.seq DESC LIMIT p_limit;
END $$;

CREATE FUNCTION caisson.webhook_get(p_tenant text, p_project text, p_id text)
RETURNS json
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	RETURN (SELECT caisson.webhook_json(w) FROM caisson.webhooks w
		WHERE w.id = p_id AND w.project = p_project);
END $$;

-- What is NULL stays. p_labels_set with NULL labels takes the filter away.
-- p_state active: begins again with what happens from here on if it was
-- disabled. NULL: no such webhook. Raises CA412 if p_generation does not fit.
CREATE FUNCTION caisson.webhook_update(p_tenant text, p_project text,
	p_id text, p_url text, p_types text[], p_labels_set boolean,
	p_labels jsonb, p_secrets bytea[], p_state text, p_generation bigint)
RETURNS json
LANGUAGE plpgsql AS $$
DECLARE
	w caisson.webhooks;
	pos record;
BEGIN
	PERFORM caisson.scope(p_tenant);
	SELECT * INTO w FROM caisson.webhooks x
		WHERE x.id = p_id AND x.project = p_project FOR UPDATE;
	IF NOT FOUND THEN
		RETURN NULL;
	END IF;
	IF p_generation IS NOT NULL AND p_generation <> w.generation THEN
		RAISE EXCEPTION 'generation is % now', w.generation
			USING ERRCODE = 'CA412';
	END IF;
	IF p_state = 'active' AND w.state = 'disabled' THEN
		SELECT * INTO pos FROM caisson.events_newest(NULL, true);
		w.after_xid := pos.xid::xid8;
		w.after_seq := pos.seq;
	END IF;
	UPDATE caisson.webhooks x
		SET url = coalesce(p_url, x.url),
		    types = coalesce(p_types, x.types),
		    labels = CASE WHEN p_labels_set THEN p_labels
			ELSE x.labels END,
		    secrets = coalesce(p_secrets, x.secrets),
		    reason = CASE p_state WHEN 'active' THEN NULL
			WHEN 'disabled' THEN 'by request' ELSE x.reason END,
		    state = coalesce(p_state, x.state),
		    after_xid = w.after_xid, after_seq = w.after_seq,
		    generation = x.generation + 1, updated_at = now()
		WHERE x.id = p_id RETURNING * INTO w;
	RETURN caisson.webhook_json(w);
END $$;

CREATE FUNCTION caisson.webhook_delete(p_tenant text, p_project text,
	p_id text)
RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	DELETE FROM caisson.webhooks w
		WHERE w.id = p_id AND w.project = p_project;
	RETURN FOUND;
END $$;

-- Raises CA404.
CREATE FUNCTION caisson.delivery_list(p_tenant text, p_project text,
	p_webhook text, p_after bigint, p_limit integer, p_state text)
RETURNS TABLE (seq bigint, item json)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	PERFORM FROM caisson.webhooks w
		WHERE w.id = p_webhook AND w.project = p_project;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'no webhook' USING ERRCODE = 'CA404';
	END IF;
	RETURN QUERY SELECT d.seq, caisson.delivery_json(d)
		FROM caisson.webhook_deliveries d
		WHERE d.webhook = p_webhook
		  AND (p_after IS NULL OR d.seq < p_after)
		  AND (p_state IS NULL OR d.state = p_state)
		ORDER BY d.seq DESC LIMIT p_limit;
END $$;

-- An event that is in no log, to try the way to the receiver. Raises CA404;
-- CA003 while the webhook is disabled.
CREATE FUNCTION caisson.webhook_test(p_tenant text, p_project text, p_id text,
	p_by text, p_trace text)
RETURNS json
LANGUAGE plpgsql AS $$
DECLARE
	w caisson.webhooks;
	d caisson.webhook_deliveries;
	v_event text := caisson.new_id('evt_');
BEGIN
	PERFORM caisson.scope(p_tenant);
	SELECT * INTO w FROM caisson.webhooks x
		WHERE x.id = p_id AND x.project = p_project;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'no webhook' USING ERRCODE = 'CA404';
	ELSIF w.state <> 'active' THEN
		RAISE EXCEPTION 'disabled' USING ERRCODE = 'CA003';
	END IF;
	INSERT INTO caisson.webhook_deliveries (id, webhook, event, type, body)
	VALUES (caisson.new_id('whd_'), w.id, v_event, 'webhook.test',
		json_build_object('id', v_event, 'cursor', NULL,
			'time', caisson.ts(now()), 'type', 'webhook.test',
			'project', w.project, 'actor', p_by,
			'data', json_build_object('webhook', w.id),
			'trace', p_trace)::text)
	RETURNING * INTO d;
	RETURN caisson.delivery_json(d);
END $$;

-- Once more, with a new set of tries. Raises CA404; CA003 while disabled or
-- under way.
CREATE FUNCTION caisson.delivery_again(p_tenant text, p_project text,
	p_webhook text, p_id text)
RETURNS json
LANGUAGE plpgsql AS $$
DECLARE
	w caisson.webhooks;
	d caisson.webhook_deliveries;
BEGIN
	PERFORM caisson.scope(p_tenant);
	SELECT * INTO w FROM caisson.webhooks x
		WHERE x.id = p_webhook AND x.project = p_project;
	SELECT * INTO d FROM caisson.webhook_deliveries x
		WHERE x.id = p_id AND x.webhook = w.id FOR UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'no delivery' USING ERRCODE = 'CA404';
	ELSIF w.state <> 'active' OR d.lease_until > now() THEN
		RAISE EXCEPTION 'not now' USING ERRCODE = 'CA003';
	END IF;
	UPDATE caisson.webhook_deliveries x
		SET state = 'pending', begun_at = now(), next_at = now(),
		    attempts = 0, finished_at = NULL, owner = NULL,
		    lease_until = NULL
		WHERE x.id = p_id RETURNING * INTO d;
	RETURN caisson.delivery_json(d);
END $$;

-- ---- what the controller calls ----

-- Events become deliveries, at most p_limit events read per webhook. Returns
-- how many were made, and whether there is more to read.
CREATE FUNCTION caisson.webhook_fanout(p_limit integer)
RETURNS TABLE (made integer, more boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	w caisson.webhooks;
	e caisson.events;
	v_read integer;
BEGIN
	made := 0;
	more := false;
	FOR w IN SELECT * FROM caisson.webhooks x WHERE x.state = 'active'
		ORDER BY x.seq FOR UPDATE SKIP LOCKED
	LOOP
		v_read := 0;
		FOR e IN SELECT * FROM caisson.events x
			WHERE x.tenant = w.tenant
			  AND (x.xid, x.seq) > (w.after_xid, w.after_seq)
			  AND x.xid < pg_snapshot_xmin(pg_current_snapshot())
			ORDER BY x.xid, x.seq LIMIT p_limit
		LOOP
			v_read := v_read + 1;
			w.after_xid := e.xid;
			w.after_seq := e.seq;
			CONTINUE WHEN e.project IS DISTINCT FROM w.project
				OR NOT (e.type = ANY (w.types)
				OR split_part(e.type, '.', 1) || '.*'
					= ANY (w.types) OR '*' = ANY (w.types))
				OR (w.labels IS NOT NULL AND NOT EXISTS (
					SELECT FROM caisson.sandboxes s
					WHERE s.id = e.sandbox
					  AND s.labels @> w.labels));
			INSERT INTO caisson.webhook_deliveries (id, webhook,
				event, type, body)
			VALUES (caisson.new_id('whd_'), w.id, e.id, e.type,
				caisson.event_json(e)::text);
			made := made + 1;
		END LOOP;
		IF v_read > 0 THEN
			UPDATE caisson.webhooks x
				SET after_xid = w.after_xid,
				    after_seq = w.after_seq
				WHERE x.id = w.id;
		END IF;
		more := more OR v_read = p_limit;
	END LOOP;
	RETURN NEXT;
END $$;

-- Take the oldest due delivery of each webhook that has none under way.
CREATE FUNCTION caisson.delivery_claim(p_owner text, p_lease_s integer,
	p_limit integer)
RETURNS TABLE (id text, webhook text, url text, secrets text[], body text,
	attempts integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
#variable_conflict use_column
DECLARE
	w caisson.webhooks;
	v_n integer := 0;
BEGIN
	PERFORM set_config('synchronous_commit', 'off', true);
	FOR w IN SELECT x.* FROM caisson.webhooks x
		WHERE x.state = 'active'
		  AND EXISTS (SELECT FROM caisson.webhook_deliveries d
			WHERE d.webhook = x.id AND d.state = 'pending'
			  AND d.next_at <= now())
		FOR UPDATE SKIP LOCKED
	LOOP
		EXIT WHEN v_n >= p_limit;
		CONTINUE WHEN EXISTS (SELECT FROM caisson.webhook_deliveries d
			WHERE d.webhook = w.id AND d.state = 'pending'
			  AND d.lease_until > clock_timestamp());
		RETURN QUERY UPDATE caisson.webhook_deliveries d
			SET owner = p_owner, attempts = d.attempts + 1,
			    lease_until = clock_timestamp()
				+ p_lease_s * interval '1 second'
			WHERE d.id = (SELECT y.id
				FROM caisson.webhook_deliveries y
				WHERE y.webhook = w.id AND y.state = 'pending'
				  AND y.next_at <= now()
				ORDER BY y.seq LIMIT 1)
			RETURNING d.id, w.id, w.url,
				ARRAY(SELECT encode(s, 'hex')
					FROM unnest(w.secrets) AS s),
				d.body, d.attempts;
		v_n := v_n + 1;
	END LOOP;
END $$;

-- How a try went. Ignored if the lease was lost meanwhile. p_delay_s: until
-- the next try; after p_max_s since the first the delivery has failed and the
-- webhook is disabled, with an event.
CREATE FUNCTION caisson.delivery_done(p_id text, p_owner text, p_ok boolean,
	p_status integer, p_error text, p_took_ms integer, p_delay_s integer,
	p_max_s integer)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	d caisson.webhook_deliveries;
	w caisson.webhooks;
	v_state text;
BEGIN
	SELECT * INTO d FROM caisson.webhook_deliveries x
		WHERE x.id = p_id AND x.owner = p_owner
		  AND x.state = 'pending' FOR UPDATE;
	IF NOT FOUND THEN
		RETURN 'lost';
	END IF;
	v_state := CASE WHEN p_ok THEN 'delivered'
		WHEN d.begun_at + p_max_s * interval '1 second'
			<= now() THEN 'failed'
		ELSE 'pending' END;
	UPDATE caisson.webhook_deliveries x
		SET state = v_state, status = p_status, error = p_error,
		    took_ms = p_took_ms, owner = NULL, lease_until = NULL,
		    next_at = now() + p_delay_s * interval '1 second',
		    finished_at = CASE WHEN v_state <> 'pending' THEN now() END
		WHERE x.id = p_id;
	IF v_state = 'failed' THEN
		UPDATE caisson.webhooks x
			SET state = 'disabled', generation = x.generation + 1,
			    reason = 'delivery ' || p_id || ' failed for '
				|| p_max_s || ' s: ' || coalesce(p_error,
				'status ' || p_status), updated_at = now()
			WHERE x.id = d.webhook AND x.state = 'active'
			RETURNING * INTO w;
		IF FOUND THEN
			PERFORM caisson.event_add(w.tenant, w.project,
				'webhook.disabled', NULL, NULL, 'controller',
				NULL, jsonb_build_object('webhook', w.id,
					'url', w.url, 'reason', w.reason));
		END IF;
	END IF;
	RETURN v_state;
END $$;

CREATE FUNCTION caisson.delivery_gc(p_days integer, p_limit integer)
RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	n integer;
BEGIN
	DELETE FROM caisson.webhook_deliveries d WHERE d.ctid IN (
		SELECT x.ctid FROM caisson.webhook_deliveries x
		WHERE x.finished_at < now() - p_days * interval '1 day'
		LIMIT p_limit FOR UPDATE SKIP LOCKED);
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN n;
END $$;

REVOKE ALL ON FUNCTION caisson.delivery_claim, caisson.delivery_done,
	caisson.webhook_fanout, caisson.delivery_gc FROM PUBLIC;
GRANT EXECUTE ON FUNCTION caisson.delivery_claim, caisson.delivery_done,
	caisson.webhook_fanout, caisson.delivery_gc TO caisson_controller;

CREATE TRIGGER audit_change AFTER INSERT OR DELETE ON caisson.webhooks
	FOR EACH ROW EXECUTE FUNCTION caisson.audit_change('webhook', 'id',
		'url,types');
CREATE TRIGGER audit_update AFTER UPDATE ON caisson.webhooks
	FOR EACH ROW WHEN (OLD.generation <> NEW.generation)
	EXECUTE FUNCTION caisson.audit_change('webhook', 'id',
		'url,types,labels,state,reason');

ALTER TABLE caisson.webhooks ENABLE ROW LEVEL SECURITY;
ALTER TABLE caisson.webhook_deliveries ENABLE ROW LEVEL SECURITY;
CREATE POLICY api ON caisson.webhooks TO caisson_api
	USING (tenant = current_setting('caisson.tenant', true));
CREATE POLICY api ON caisson.webhook_deliveries TO caisson_api
	USING (EXISTS (SELECT FROM caisson.webhooks w WHERE w.id = webhook));
GRANT SELECT, INSERT, UPDATE, DELETE ON caisson.webhooks TO caisson_api;
GRANT SELECT, INSERT, UPDATE ON caisson.webhook_deliveries TO caisson_api;

RESET ROLE;
